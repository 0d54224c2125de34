package harness

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a setpoint that runs in the background.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	log   strings.Builder // standard output and error; guarded by mu
	lines chan string
}

// StartProcess starts the binary with args. What it printed is shown when the
// test fails.
func StartProcess(t testing.TB, args ...string) *Process {
	t.Helper()
	return start(t, exec.Command(Binary(t), args...), args)
}

func start(t testing.TB, cmd *exec.Cmd, args []string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd, done: make(chan struct{}), lines: make(chan string, 1000)}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = write, write
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	go p.read(read)
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("setpoint %s:\n%s", strings.Join(args, " "), tail(p.Output(), 200))
		}
	})
	return p
}

func (p *Process) read(r io.ReadCloser) {
	defer r.Close()
	defer close(p.lines)
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		p.mu.Lock()
		p.log.WriteString(scan.Text() + "\n")
		p.mu.Unlock()
		select {
		case p.lines <- scan.Text():
		default: // nobody waits for lines any more
		}
	}
}

// Output is all that the process printed so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// WaitFor waits for a line that begins with prefix, and returns it.
func (p *Process) WaitFor(prefix string) string {
	p.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("setpoint ended before it printed %q:\n%s", prefix, tail(p.Output(), 50))
			}
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-limit:
			p.t.Fatalf("setpoint did not print %q within %s:\n%s", prefix, patience, tail(p.Output(), 50))
		}
	}
}

// Wait waits for the process to end by itself, and returns its exit status.
func (p *Process) Wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("setpoint did not end within %s:\n%s", patience, tail(p.Output(), 50))
	}
	return p.cmd.ProcessState.ExitCode()
}

// Kill ends the process with SIGKILL.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Stop ends the process with SIGTERM, or with SIGKILL when patience ends, which
// fails the test.
func (p *Process) Stop() { p.end(syscall.SIGTERM) }

func (p *Process) end(sig syscall.Signal) {
	p.t.Helper()
	select {
	case <-p.done:
		return
	default:
	}
	p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Errorf("setpoint did not end within %s of %s", patience, sig)
		p.cmd.Process.Kill()
		<-p.done
	}
}

func tail(s string, n int) string {
	lines := strings.SplitAfter(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
