package containerd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// inNetns marks the process that runs the tests proper.
const inNetns = "SETPOINT_TEST_NETNS"

// TestMain runs the tests in a network namespace of their own that has a
// loopback interface and no way out: whatever a pod sends, and whatever
// interface a plugin makes, stays in it and ends with it.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(inNetns) != "" {
		if os.Getenv(inNetns) != "" {
			if err := loopbackUp(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(m.Run())
	}
	inner := exec.Command(os.Args[0], os.Args[1:]...)
	inner.Env = append(os.Environ(), inNetns+"=1")
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := inner.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(1, exit.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "run the tests in a network namespace:", err)
		os.Exit(1)
	}
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// needRoot skips a test that works on the real thing.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it runs containers")
	}
}
