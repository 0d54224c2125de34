package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// nobody is the user that the server becomes.
	nobody = 65534
	// firstSocket is the first file that the process is started with: UDP, TCP
	// and the Unix socket of the node.
	firstSocket = 3
)

// Main is the process: it serves on the sockets that it was started with until
// it is asked to end. args are the program and the path of the node's socket,
// by which the process is found.
func Main(args []string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if len(args) != 2 {
		return fmt.Errorf("usage: %s SOCKET (setpoint starts it)", args[0])
	}
	// A picture of names is small and lives long: a small heap matters more
	// here than how often it is swept.
	debug.SetGCPercent(30)
	udp, err := net.FilePacketConn(os.NewFile(firstSocket, "udp"))
	if err != nil {
		return fmt.Errorf("the socket for UDP: %w", err)
	}
	tcp, err := net.FileListener(os.NewFile(firstSocket+1, "tcp"))
	if err != nil {
		return fmt.Errorf("the socket for TCP: %w", err)
	}
	node, err := net.FileListener(os.NewFile(firstSocket+2, "node"))
	if err != nil {
		return fmt.Errorf("the socket for the node: %w", err)
	}
	if err := giveUpRoot(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err = New(args[0], log).Serve(ctx, udp, tcp, node)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// giveUpRoot leaves nothing to gain to whoever finds a fault in how messages
// are read: they come from pods.
func giveUpRoot() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("give up groups: %w", err)
	}
	if err := syscall.Setgid(nobody); err != nil {
		return fmt.Errorf("give up the group root: %w", err)
	}
	if err := syscall.Setuid(nobody); err != nil {
		return fmt.Errorf("give up root: %w", err)
	}
	return nil
}
