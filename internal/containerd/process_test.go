package containerd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// startShell runs a script, which says when it is set up and then waits, as a
// process that can be told from all others.
func startShell(t *testing.T, script string) (pid int, match func([]string) bool) {
	t.Helper()
	mark := "mark-" + strconv.Itoa(os.Getpid()) + t.Name()
	cmd := exec.Command("sh", "-c", script, mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // never written to
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, func(args []string) bool { return slices.Contains(args, mark) }
}

func findOne(t *testing.T, match func([]string) bool) *process {
	t.Helper()
	found, err := findProcesses(match)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 {
		t.Fatalf("found %d processes, want 1", len(found))
	}
	t.Cleanup(found[0].close)
	return found[0]
}

func TestProcessEndsWhenAsked(t *testing.T) {
	pid, match := startShell(t, "echo; read never")
	p := findOne(t, match)
	if p.pid != pid {
		t.Errorf("found process %d, want %d", p.pid, pid)
	}
	if err := p.end(context.Background(), patience); err != nil {
		t.Error(err)
	}
	if found, err := findProcesses(match); err != nil || len(found) != 0 {
		t.Errorf("found %d processes, %v; want none", len(found), err)
	}
	// It is gone, and that is fine.
	if err := p.end(context.Background(), patience); err != nil {
		t.Errorf("ending it again: %v", err)
	}
	if err := p.wait(context.Background()); err != nil {
		t.Errorf("waiting for it again: %v", err)
	}
}

func TestProcessIsKilledWhenItDoesNotListen(t *testing.T) {
	_, match := startShell(t, "trap '' TERM; echo; read never")
	p := findOne(t, match)
	if err := p.end(context.Background(), time.Millisecond); err != nil {
		t.Error(err)
	}
	if err := p.wait(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestProcessWaitEndsWithContext(t *testing.T) {
	_, match := startShell(t, "echo; read never")
	p := findOne(t, match)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if err := p.wait(ctx); !errors.Is(err, cause) {
		t.Errorf("wait: %v, want %v", err, cause)
	}

	bound, release := p.bind(context.Background())
	release()
	if err := context.Cause(bound); !errors.Is(err, context.Canceled) {
		t.Errorf("released: %v, want %v", err, context.Canceled)
	}
	bound, release = p.bind(context.Background())
	defer release()
	if err := p.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-bound.Done()
	if err := context.Cause(bound); !errors.Is(err, errEnded) {
		t.Errorf("ended: %v, want %v", err, errEnded)
	}
}
