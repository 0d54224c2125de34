package plugin

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Watcher registers the plugins whose sockets lie in a folder.
type Watcher struct {
	opts Options
	wake chan struct{} // one slot: look at the folder

	// What follows belongs to the goroutine of Run.
	known map[string]*member // by path
	wg    sync.WaitGroup
}

// member is a socket that is there, and the goroutine that deals with it.
type member struct {
	id   identity
	end  context.CancelCauseFunc
	done chan struct{} // closed when it has been deregistered
}

// identity tells a socket from another that was made at the same path later.
type identity struct {
	device, inode uint64
	made          unix.Timespec
}

// New makes a Watcher.
func New(o Options) *Watcher {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(string, error) {}
	}
	return &Watcher{opts: o, wake: make(chan struct{}, 1), known: map[string]*member{}}
}

const (
	lookWithoutNews = time.Second // between looks when the folder cannot be watched
	firstRetry      = 500 * time.Millisecond
	lastRetry       = 2 * time.Minute
)

// Run keeps the plugins of the folder registered until ctx ends. What is
// registered then stays so: it is not the plugin that ended.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.wg.Wait()
	if err := os.MkdirAll(w.opts.Dir, 0o750); err != nil {
		return err
	}
	news, err := watch(w.opts.Dir)
	if err != nil {
		w.opts.Logger.Warn("the folder of plugins cannot be watched and is read every second", "folder", w.opts.Dir, "error", err)
	} else {
		defer news.close()
		w.wg.Go(func() { news.run(w.look) })
		defer context.AfterFunc(ctx, news.close)()
	}
	for {
		found, folders, err := scan(w.opts.Dir)
		if err == nil {
			w.settle(ctx, found)
		} else {
			w.opts.Logger.Warn("the folder of plugins cannot be read", "folder", w.opts.Dir, "error", err)
			_ = os.MkdirAll(w.opts.Dir, 0o750) // somebody took it away
		}
		var again <-chan time.Time
		if news != nil && news.add(folders) {
			continue // for what was put into a new folder before it was watched
		} else if news == nil || err != nil {
			again = time.After(lookWithoutNews)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-again:
		}
	}
}

// look has the folder read soon.
func (w *Watcher) look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// settle deals with what is new and what is gone.
func (w *Watcher) settle(ctx context.Context, found map[string]identity) {
	for path, s := range w.known {
		if id, there := found[path]; !there || id != s.id {
			s.end(errGone)
			delete(w.known, path)
			if there {
				w.keep(ctx, path, id, s.done)
			}
		}
	}
	for path, id := range found {
		if w.known[path] == nil {
			w.keep(ctx, path, id, nil)
		}
	}
}

// errGone is why a socket's goroutine ends when the socket is there no more.
var errGone = errors.New("the socket is gone")

// keep starts the goroutine of a socket; before, when not nil, is closed when
// that of its predecessor has ended.
func (w *Watcher) keep(ctx context.Context, path string, id identity, before <-chan struct{}) {
	ctx, end := context.WithCancelCause(ctx)
	s := &member{id: id, end: end, done: make(chan struct{})}
	w.known[path] = s
	w.wg.Go(func() {
		defer close(s.done)
		defer end(nil)
		if before != nil {
			<-before
		}
		p := w.hold(ctx, path)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), errGone) {
			return
		}
		w.opts.Changed(path, nil)
		if p.Type != "" {
			w.opts.Logger.Info("plugin is gone", "type", p.Type, "plugin", p.Name, "socket", path)
			w.opts.Handlers[p.Type].Deregister(p)
		}
	})
}

// hold registers the plugin at a socket, and again until it succeeds or ctx
// ends. It returns the plugin that a handler was told of.
func (w *Watcher) hold(ctx context.Context, path string) (known Plugin) {
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		p, err := w.register(ctx, path)
		if p.Type != "" {
			if known.Type != "" && (known.Type != p.Type || known.Name != p.Name || known.Endpoint != p.Endpoint) {
				w.opts.Handlers[known.Type].Deregister(known)
			}
			known = p
		}
		if ctx.Err() != nil {
			return known
		}
		w.opts.Changed(path, err)
		if err == nil {
			w.opts.Logger.Info("plugin registered", "type", p.Type, "plugin", p.Name, "endpoint", p.Endpoint)
			return known
		}
		w.opts.Logger.Warn("plugin not registered", "socket", path, "error", err, "again in", delay)
		select {
		case <-ctx.Done():
			return known
		case <-time.After(delay):
		}
	}
}

// scan finds the sockets in a folder and those below it, and these folders.
// What has a name that begins with a dot is somebody's half-made work.
func scan(dir string) (sockets map[string]identity, folders []string, err error) {
	sockets = map[string]identity{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != dir:
			return nil // gone since it was listed
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			folders = append(folders, path)
			return nil
		case e.Type()&fs.ModeSocket == 0:
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); errors.Is(err, unix.ENOENT) {
			return nil
		} else if err != nil {
			return err
		}
		sockets[path] = identity{uint64(st.Dev), st.Ino, st.Mtim}
		return nil
	})
	return sockets, folders, err
}
