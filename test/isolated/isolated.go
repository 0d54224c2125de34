// Package isolated runs a program again inside a network namespace of its own
// that holds nothing but a loopback device, so that nothing the program or its
// children do can leave the machine.
package isolated

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/vishvananda/netlink"
)

const marker = "SETPOINT_ISOLATED"

// Main calls main inside the namespace and exits with what it returns. Needs
// root.
func Main(main func() int) {
	if os.Getenv(marker) == "" {
		os.Exit(enter())
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "set the loopback device up:", err)
		os.Exit(1)
	}
	os.Exit(main())
}

func enter() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	// The child gets Ctrl-C from the terminal itself and ends first.
	signal.Ignore(syscall.SIGINT)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "a network namespace of its own needs root:", err)
		return 1
	}
	return 0
}
