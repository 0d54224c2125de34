package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestMain is also the process that holds a data folder for the tests: called
// with HOLD it locks that one and waits for its end.
func TestMain(m *testing.M) {
	dir := os.Getenv("HOLD")
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := tryLock(dir, os.Getenv("AS") == "command"); err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("locked\n")
	io.Copy(io.Discard, os.Stdin) // it ends with the test
}

// hold starts a process that has dir, under a name; as "command" or otherwise.
func hold(t *testing.T, dir, name, as string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Link(self, path); err != nil { // another file system
		data, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), "HOLD="+dir, "AS="+as)
	if _, err := cmd.StdinPipe(); err != nil { // closed when the test ends, however it does
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line := make([]byte, 100)
	if n, _ := out.Read(line); string(line[:n]) != "locked\n" {
		t.Fatalf("the process that was to lock %s said %q", dir, line[:n])
	}
	return cmd
}

// TestLock: one process has a data folder, the next is told which, and waits
// for it to end.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	other := hold(t, dir, "setpoint", "command")
	_, err := tryLock(dir, false)
	if want := "in use by process " + strconv.Itoa(other.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
	told := make(chan string, 10)
	o := &Options{DataDir: dir, Tell: func(line string) {
		told <- line
		other.Process.Kill()
	}}
	l, err := lockData(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if line := <-told; !strings.HasPrefix(line, "waiting up to 5s: "+dir+" is in use by process") || len(told) > 0 {
		t.Errorf("told %q and %d lines more", line, len(told))
	}
	// In one process it is no different.
	if _, err := tryLock(dir, false); !errors.As(err, new(*inUse)) {
		t.Errorf("locked twice: %v", err)
	}
	l.release()
	if l, err = tryLock(dir, false); err != nil {
		t.Fatal(err)
	}
	l.release()
	// The number of a process that is gone, or another's by now, is no holder.
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if pid, _ := holder(f); pid != 0 {
		t.Errorf("process %d is taken for the holder", pid)
	}
}

// TestLockOfDeletedFolder: who waited while the folder was deleted has a new
// one, not the lock of a file that is gone.
func TestLockOfDeletedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	o := &Options{DataDir: dir}
	first, err := lockData(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Tell = func(string) {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Error(err)
		}
		first.release()
	}
	second, err := lockData(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer second.release()
	if _, err := tryLock(dir, false); !errors.As(err, new(*inUse)) {
		t.Errorf("the folder is not locked: %v", err)
	}
}

// TestTakeOver: down ends a command of ours that has the folder, whatever its
// file is called, and nothing else.
func TestTakeOver(t *testing.T) {
	for _, name := range []string{"other", "setpoint", "setpoint.test"} {
		dir := t.TempDir()
		other := hold(t, dir, name, "library")
		if _, err := takeOver(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "end that one first") {
			t.Errorf("%s: got error %v", name, err)
		}
		if err := other.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("%s: a program that has more to do was ended: %v", name, err)
		}
		other.Process.Kill()
		other.Wait()
		ours := hold(t, dir, name, "command")
		l, err := takeOver(t.Context(), dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l.release()
		if err := ours.Wait(); err == nil || !strings.Contains(err.Error(), "terminated") {
			t.Errorf("%s: the process ended with %v, want SIGTERM", name, err)
		}
	}
}

// TestWaitForPort: a port that is about to be free is waited for, one that is
// not is an error.
func TestWaitForPort(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	o := &Options{Tell: func(string) { lines++; busy.Close() }}
	l, err := listenTCP(t.Context(), o, busy.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if lines != 1 {
		t.Errorf("told %d lines", lines)
	}
}

// TestRetry: it ends with patience, with another error, and with its context.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passing, other := errors.New("passing"), errors.New("other")
		try := func(ctx context.Context, err error) (took time.Duration, got error) {
			begin := time.Now()
			got = retry(ctx, &Options{}, func(err error) bool { return err == passing }, func() error { return err })
			return time.Since(begin), got
		}
		if took, err := try(t.Context(), passing); err != passing || took < patience || took > patience+2*poll {
			t.Errorf("got %v after %s", err, took)
		}
		if took, err := try(t.Context(), other); err != other || took != 0 {
			t.Errorf("got %v after %s", err, took)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(other)
		if took, err := try(ctx, passing); err != other || took > poll {
			t.Errorf("got %v after %s", err, took)
		}
	})
}

// TestStoreFails: a store that fails ends the process, which says why.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := false
		p := newParts(t.Context())
		p.run("data folder", func(ctx context.Context) error {
			return untilFailed(ctx, func() error {
				if full {
					return syscall.ENOSPC
				}
				return nil
			})
		})
		time.Sleep(time.Minute)
		if p.ctx.Err() != nil {
			t.Error("it ended while the store worked")
		}
		full = true
		time.Sleep(2 * time.Second)
		err := p.wait(t.Context())
		if !errors.As(err, new(*StoreError)) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got error %v", err)
		}
	})
}

// TestFoldersOfTheirOwn: an agent and a cluster do not share a data folder, and
// an agent knows its server again.
func TestFoldersOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	agent := func(server string) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return RunAgent(ctx, Options{DataDir: dir, NodeName: "one"}, JoinOptions{Server: server})
	}
	if err := agent(""); !errors.Is(err, ErrNoServer) {
		t.Errorf("an agent that was told no server: %v", err)
	}
	s, err := openState(&Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = "http://not.tls"
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if err := agent(""); err == nil || !strings.Contains(err.Error(), s.Server) {
		t.Errorf("an agent that was told its server last time: %v", err)
	}
	if err := Up(t.Context(), Options{DataDir: dir, Nodes: "none"}); err == nil || !strings.Contains(err.Error(), "that of an agent of "+s.Server) {
		t.Errorf("a cluster in an agent's folder: %v", err)
	}
	s.Server, s.Listen = "", "127.0.0.1:1"
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if err := agent("https://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "a cluster of its own") {
		t.Errorf("an agent in a cluster's folder: %v", err)
	}
}
