package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
	// steady is how long a daemon must have run for its end to count as new
	// trouble rather than more of the same.
	steady = 10 * time.Second
	// startTimeout bounds the time from start to CRI. It is generous: after a
	// crash with many containers the daemon visits each of their shims first.
	startTimeout = 2 * time.Minute
	// maxFirstStarts is after how many failures in a row Run gives up if the
	// daemon has never been ready: it is the configuration or the host then.
	maxFirstStarts = 3
	logInterval    = time.Minute
)

var errSlow = fmt.Errorf("containerd serves no CRI after %v", startTimeout)

// Supervisor keeps one instance's daemon running.
//
//	unpack -> find or start -> CRI answers -> images there -> Ready
//	             ^                                              |
//	             +---- back-off ---- daemon ended <-------------+
//
// A Supervisor holds a lock on its instance while Run or Down works; a second
// one fails rather than fights.
type Supervisor struct {
	options Options
	layout  layout
	log     *slog.Logger

	ready     chan struct{}
	readyOnce sync.Once
}

// New returns a Supervisor. Nothing is started before Run.
func New(options Options) (*Supervisor, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	l, err := options.layout()
	if err != nil {
		return nil, err
	}
	if options.CNIConfDir == "" {
		options.CNIConfDir = filepath.Join(l.data, "cni", "net.d")
	}
	if options.Grace == 0 {
		options.Grace = 10 * time.Second
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return &Supervisor{
		options: options, layout: l, log: options.Logger, ready: make(chan struct{}),
	}, nil
}

// Endpoint is what the kubelet connects to.
func (s *Supervisor) Endpoint() string { return "unix://" + s.layout.socket() }

// Socket is the path of the daemon's socket.
func (s *Supervisor) Socket() string { return s.layout.socket() }

// Ready is closed when CRI has answered for the first time and the carried
// images are there.
func (s *Supervisor) Ready() <-chan struct{} { return s.ready }

// Run keeps the daemon running until ctx ends, and then leaves it running or,
// with StopDaemon, stops it; containers run on in either case. It returns
// early only if the runtime cannot be started at all: it is absent
// (ErrAbsent), the instance is in use, or the daemon ends three times without
// having been ready.
func (s *Supervisor) Run(ctx context.Context) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	d, err := s.prepare()
	if err != nil {
		return err
	}
	if err := s.layout.prune(d.config.paths); err != nil {
		s.log.Warn("older container runtimes are not removed", "reason", err)
	}
	var (
		backoff  = minBackoff
		failures = 0
	)
	for {
		begin := time.Now()
		err := s.runOnce(ctx, d)
		if ctx.Err() != nil {
			return s.leave(ctx, d)
		}
		if err == nil {
			err = errEnded
		}
		if !s.hasBeenReady() {
			if failures++; failures == maxFirstStarts {
				return fmt.Errorf("the container runtime does not start: %w; its last words in %s:\n%s", err, s.layout.log(), s.layout.lastWords())
			}
		}
		if time.Since(begin) > steady {
			backoff = minBackoff
		}
		s.log.Warn("container runtime is restarted", "reason", err, "after", time.Since(begin), "in", backoff, "log", s.layout.log())
		select {
		case <-ctx.Done():
			return s.leave(ctx, d)
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func (s *Supervisor) hasBeenReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// prepare unpacks the runtime and looks at the host.
func (s *Supervisor) prepare() (*daemon, error) {
	paths, err := Unpack(s.layout.data)
	if err != nil {
		return nil, err
	}
	if err := s.layout.create(s.options.CNIConfDir); err != nil {
		return nil, err
	}
	level := "warn"
	if s.options.Debug {
		level = "debug"
	}
	return &daemon{layout: s.layout, config: daemonConfig{
		paths:         paths,
		root:          s.layout.root(),
		run:           s.layout.run,
		cniConf:       s.options.CNIConfDir,
		cniBin:        append([]string{paths.CNI}, s.options.CNIBinDirs...),
		registries:    s.layout.registries(),
		snapshotter:   snapshotterFor(s.layout.root()),
		logLevel:      level,
		lowerOOMScore: mayLowerOOMScore(),
	}}, nil
}

// runOnce finds or starts a daemon and returns when it has ended, why it is of
// no use, or when ctx ends.
func (s *Supervisor) runOnce(ctx context.Context, d *daemon) error {
	begin := time.Now()
	p, adopted, err := d.ensure(ctx)
	if err != nil {
		return err
	}
	defer p.close()

	bound, release := p.bind(ctx)
	if err := s.becomeReady(bound, d); err != nil {
		release()
		if errors.Is(err, errSlow) {
			return errors.Join(err, p.end(ctx, daemonGrace))
		}
		return err
	}
	defer release()
	s.log.Info("container runtime is ready", "pid", p.pid, "adopted", adopted, "took", time.Since(begin), "endpoint", s.Endpoint())
	s.readyOnce.Do(func() { close(s.ready) })

	tick := time.NewTicker(logInterval)
	defer tick.Stop()
	for {
		select {
		case <-bound.Done():
			return context.Cause(bound)
		case <-tick.C:
			if err := s.layout.trimLog(); err != nil {
				s.log.Warn("container runtime's log is not trimmed", "error", err)
			}
		}
	}
}

// becomeReady waits for CRI and sees to the carried images.
func (s *Supervisor) becomeReady(ctx context.Context, d *daemon) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errSlow)
	defer cancel()
	conn, err := dial(s.layout.socket())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := awaitCRI(ctx, conn); err != nil {
		return err
	}
	return importCarried(ctx, conn, d.config.paths.Images)
}

// leave is what Run does last.
func (s *Supervisor) leave(ctx context.Context, d *daemon) error {
	if !s.options.StopDaemon {
		return nil
	}
	return endAll(context.WithoutCancel(ctx), d.layout.isDaemon, daemonGrace)
}

// endAll ends all processes that match, one after the other.
func endAll(ctx context.Context, match func([]string) bool, grace time.Duration) error {
	found, err := findProcesses(match)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range found {
		errs = append(errs, p.end(ctx, grace))
		p.close()
	}
	return errors.Join(errs...)
}

// lock takes the instance's lock. The kernel drops it when we die.
func (s *Supervisor) lock() (unlock func(), err error) {
	if err := os.MkdirAll(s.layout.home(), 0o711); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(s.layout.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("the container runtime of %s is in use by another setpoint: stop that one first", s.layout.data)
		}
		return nil, err
	}
	return func() { file.Close() }, nil
}
