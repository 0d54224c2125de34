package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// buildPause builds the program with the flags that bundle.mk uses.
func buildPause(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pause")
	makefile, err := os.ReadFile("../../bundle.mk")
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for line := range strings.Lines(string(makefile)) {
		if value, ok := strings.CutPrefix(line, "BUNDLE_PAUSE_CFLAGS := "); ok {
			flags = strings.Fields(value)
		}
	}
	if len(flags) == 0 {
		t.Fatal("bundle.mk has no BUNDLE_PAUSE_CFLAGS")
	}
	out, err := exec.Command("cc", append(flags, "-o", program, "../pause/pause.c")...).CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return program
}

func TestPauseEndsWhenAsked(t *testing.T) {
	program := buildPause(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		// Its own first process, where signals without a handler are dropped.
		cmd := exec.Command(program)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitState(t, cmd.Process.Pid, "S")
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v, want exit code 0", signal, err)
		}
	}
}

// Children that a pod's other processes leave behind become children of
// pause. Here a shell has them and then turns into pause.
func TestPauseReaps(t *testing.T) {
	program := buildPause(t)
	const children = 5
	script := "for i in 1 2 3 4 5; do (read x <&3) & echo $!; done; exec 3<&- " + program
	gate, opener, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer opener.Close()
	cmd := exec.Command("sh", "-c", script)
	cmd.ExtraFiles = []*os.File{gate}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gate.Close()
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var pids []int
	lines := bufio.NewScanner(out)
	for len(pids) < children && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	opener.Close() // the children end
	for _, pid := range pids {
		awaitState(t, pid, "")
	}
}

// awaitState returns when a process is in a state as ps shows it, or, for the
// empty state, when it is gone and reaped. The test's deadline bounds it.
func awaitState(t *testing.T, pid int, want string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			if want != "" {
				t.Fatalf("process %d: %v", pid, err)
			}
			return
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		if want != "" && strings.HasPrefix(after, want) {
			return
		}
	}
}
