package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a handle on a process that may or may not be our child. It names
// that very process, also after its number was given to another.
type process struct {
	pid  int
	args []string
	file *os.File // a pidfd; readable once the process has ended
}

// findProcesses returns the processes in our PID namespace whose arguments
// match, as handles to be closed.
//
// The process table is the source of truth for what runs, rather than a pid
// file: it cannot be stale, and there is no moment between starting a process
// and recording it at which a crash of ours would lose it.
func findProcesses(match func(args []string) bool) ([]*process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return nil, err
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, err
	}
	var found []*process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || !match(processArgs(pid)) {
			continue
		}
		// Programs in containers may look the same; they have their own namespace.
		if ns, err := os.Readlink("/proc/" + name + "/ns/pid"); err != nil || ns != own {
			continue
		}
		p, err := openProcess(pid)
		if err != nil {
			continue // ended meanwhile
		}
		// Look again now that the handle pins the process.
		if !match(p.args) {
			p.close()
			continue
		}
		found = append(found, p)
	}
	return found, nil
}

func processArgs(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(data) == 0 {
		return nil // ended, a zombie, or a kernel thread
	}
	fields := bytes.Split(bytes.TrimSuffix(data, []byte{0}), []byte{0})
	args := make([]string, len(fields))
	for i, f := range fields {
		args[i] = string(f)
	}
	return args
}

func openProcess(pid int) (*process, error) {
	// Non-blocking, so that the Go runtime's poller waits on it and no thread is held.
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &process{pid: pid, args: processArgs(pid), file: os.NewFile(uintptr(fd), "pidfd")}, nil
}

func (p *process) close() { p.file.Close() }

// wait returns nil when the process has ended, or the context's error. One
// goroutine may wait at a time.
func (p *process) wait(ctx context.Context) error {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { p.file.SetReadDeadline(time.Unix(1, 0)) })
	defer func() {
		stop()
		p.file.SetReadDeadline(time.Time{})
	}()
	err = conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n == 1
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return context.Cause(ctx)
	}
	if err == nil {
		// If it was our child it is a zombie now. Anyone else's it is not for
		// us to reap, and the call fails without effect.
		_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
	}
	return err
}

// errEnded is the cause of a context that ended because a process did.
var errEnded = errors.New("containerd ended")

// bind returns a context that ends when the process does. Release frees it,
// and has to be called before p is waited for or ended by other means.
func (p *process) bind(ctx context.Context) (bound context.Context, release func()) {
	bound, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if p.wait(bound) == nil {
			cancel(errEnded)
		}
	}()
	return bound, func() {
		cancel(nil)
		<-done
	}
}

func (p *process) signal(s syscall.Signal) error {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), s, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(sent, unix.ESRCH) {
		return nil
	}
	return sent
}

// end asks the process to end, and kills it if it has not after the grace
// period. It returns when the process has ended.
func (p *process) end(ctx context.Context, grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if p.wait(patient) == nil {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	// A killed process ends soon unless the kernel is stuck in it; waiting for
	// that forever would help nobody.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := p.wait(last); err != nil {
		return fmt.Errorf("process %d (%s) does not end though killed: %w", p.pid, p.args[0], err)
	}
	return nil
}
