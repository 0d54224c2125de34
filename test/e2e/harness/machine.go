package harness

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Machine stands in for a second machine: a network namespace of its own with
// a cable to that of the tests, and no other way out.
type Machine struct {
	t   testing.TB
	pid int // of a process that does nothing but hold the namespace
}

// Addresses of the two ends of the cable.
const (
	HereIP   = "192.168.77.1"
	ThereIP  = "192.168.77.2"
	HereIP6  = "fd00:77::1"
	ThereIP6 = "fd00:77::2"
)

// StartMachine makes the machine; it is gone when the test ends.
func StartMachine(t testing.TB) *Machine {
	t.Helper()
	hold := exec.Command("cat") // ends with its input, and so with the test, however that ends
	hold.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	_, err := hold.StdinPipe()
	must(t, err)
	must(t, hold.Start())
	m := &Machine{t, hold.Process.Pid}
	t.Cleanup(func() {
		hold.Process.Kill()
		hold.Wait()
	})
	here := func(args ...string) { command(t, exec.Command("ip", args...)) }
	here("link", "add", "cable-here", "type", "veth", "peer", "name", "cable-there")
	// The kernel takes a namespace apart some time after its last process: the
	// next machine's cable might find this one's still there.
	t.Cleanup(func() { here("link", "delete", "cable-here") })
	here("link", "set", "cable-there", "netns", fmt.Sprint(m.pid))
	here("addr", "add", HereIP+"/24", "dev", "cable-here")
	here("addr", "add", HereIP6+"/64", "dev", "cable-here", "nodad")
	here("link", "set", "cable-here", "up")
	m.Run("ip", "link", "set", "lo", "up")
	m.Run("ip", "addr", "add", ThereIP+"/24", "dev", "cable-there")
	m.Run("ip", "addr", "add", ThereIP6+"/64", "dev", "cable-there", "nodad")
	m.Run("ip", "link", "set", "cable-there", "up")
	return m
}

// enter is a command on the machine. Unlike `ip netns exec`, nsenter leaves
// the mounts, and with them the cgroups, as they are.
func (m *Machine) enter(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", m.pid)}, args...)...)
}

// Run runs a command there and returns what it printed.
func (m *Machine) Run(args ...string) string {
	m.t.Helper()
	return command(m.t, m.enter(args...))
}

// Command prepares a command there that the test runs itself.
func (m *Machine) Command(args ...string) *exec.Cmd { return m.enter(args...) }

// Left runs look in a thread that sees the machine's network.
func (m *Machine) Left(look func() []string) []string {
	m.t.Helper()
	return inThread(func() []string {
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.pid))
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			return []string{err.Error()}
		}
		return look()
	})
}

// inThread runs f in a thread of its own, which ends with it, and with it what
// f made of it. The first thread of a process never ends: it would stay in the
// machine's network, keep that alive, and show it to all who ask /proc/self.
func inThread(f func() []string) []string {
	done := make(chan []string)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- inThread(f) // while this one is held
			runtime.UnlockOSThread()
			return
		}
		done <- f()
	}()
	return <-done
}

// Start starts the binary there.
func (m *Machine) Start(args ...string) *Process {
	m.t.Helper()
	return start(m.t, m.enter(append([]string{Binary(m.t)}, args...)...), args)
}

func command(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}
