package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a start waits for what a process that was just killed
// may hold still: the lock of the data folder, and the port.
const patience = 5 * time.Second

// runtimePatience is how long the container runtime of a cluster that has just
// started is waited for: the first time it is unpacked.
const runtimePatience = time.Minute

// poll is how often it looks.
const poll = 50 * time.Millisecond

// dataLock says that this process has the data folder: a lock on DATA/lock,
// which the kernel drops however the process ends. The file holds the number
// of the process, for those who find it locked.
type dataLock struct{ file *os.File }

// inUse is the error of whoever finds a data folder locked.
type inUse struct {
	dir string
	pid int // 0: not known
	// command says that the process is one of setpoint's commands, there for the
	// cluster alone; else it is a program that has a cluster in it.
	command bool
}

func (e *inUse) Error() string {
	by := "another process"
	if e.pid != 0 {
		by = fmt.Sprintf("process %d", e.pid)
	}
	return fmt.Sprintf("%s is in use by %s: `setpoint status` tells what runs there, `setpoint down` stops it", e.dir, by)
}

// lockData takes the data folder, which it makes if need be. When another
// process has it, it tells so and waits a little: that one may be ending.
func lockData(ctx context.Context, o *Options) (*dataLock, error) {
	// Other processes, and this one's next folder, are told the path.
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return nil, err
	}
	o.DataDir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var l *dataLock
	err = retry(ctx, o, func(err error) bool { return errors.As(err, new(*inUse)) }, func() (err error) {
		l, err = tryLock(dir, o.Command)
		return err
	})
	return l, err
}

// tryLock takes the data folder, or returns inUse. command is what to say of
// this process; see inUse.
func tryLock(dir string, command bool) (*dataLock, error) {
	path := filepath.Join(dir, "lock")
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			defer f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				pid, command := holder(f)
				return nil, &inUse{dir, pid, command}
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// `down --purge` deletes the file while it has the lock.
		here, err := f.Stat()
		if err == nil {
			var there fs.FileInfo
			if there, err = os.Stat(path); err == nil && os.SameFile(here, there) {
				if err = f.Truncate(0); err == nil {
					text := strconv.Itoa(os.Getpid()) + "\n"
					if command {
						text += commandMark + "\n"
					}
					_, err = f.WriteAt([]byte(text), 0)
				}
				if err == nil || errors.Is(err, syscall.ENOSPC) {
					return &dataLock{f}, nil // who has it is only told when there is space
				}
			}
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// commandMark stands behind the number of a process that `down` may end.
const commandMark = "command"

// holder is the process that has the lock, as far as can be told, and whether it
// is there for the cluster alone. The number in the file may be that of an
// earlier one, for a moment: whoever does not have the file open is none.
func holder(f *os.File) (pid int, command bool) {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 64))
	if err != nil {
		return 0, false
	}
	number, rest, _ := strings.Cut(string(data), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(number))
	if err != nil || !hasOpen(pid, f.Name()) {
		return 0, false
	}
	return pid, strings.TrimSpace(rest) == commandMark
}

// hasOpen tells whether a process has a file open.
func hasOpen(pid int, path string) bool {
	want, err := os.Stat(path)
	if err != nil {
		return false
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if got, err := os.Stat(filepath.Join(dir, fd.Name())); err == nil && os.SameFile(got, want) {
			return true
		}
	}
	return false
}

func (l *dataLock) release() {
	if l != nil {
		l.file.Close()
	}
}

// retry tries until it works, fails with another error than those that may
// pass, or patience ends. It tells once that it waits.
func retry(ctx context.Context, o *Options, passing func(error) bool, try func() error) error {
	return retryFor(ctx, patience, o.Tell, passing, try)
}

func retryFor(ctx context.Context, limit time.Duration, tell func(string), passing func(error) bool, try func() error) error {
	end := time.Now().Add(limit)
	for told := false; ; told = true {
		err := try()
		if err == nil || !passing(err) || time.Now().After(end) {
			return err
		}
		if !told && tell != nil {
			tell(fmt.Sprintf("waiting up to %s: %v", limit, err))
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// listenTCP is net.Listen that waits for the port as lockData waits for the
// folder.
func listenTCP(ctx context.Context, o *Options, addr string) (l net.Listener, err error) {
	err = retry(ctx, o, func(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }, func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		return err
	})
	return l, err
}

// Running tells which process has a data folder; 0 when it cannot be told.
func Running(dir string) (pid int, running bool) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	// Shared, so that nobody who looks at the same time is in the way.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		return 0, false
	}
	pid, _ = holder(f)
	return pid, true
}
