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
	// firstSocket is the first file that the process is started with. All are
	// sockets: one for UDP and one for TCP on each address, and the Unix socket
	// of the node.
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
	sockets, err := inherited()
	if err != nil {
		return err
	}
	if err := giveUpRoot(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err = New(args[0], log).Serve(ctx, sockets)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// inherited are the sockets that the process was started with, known by their
// kind. The first file that is no socket ends them: it is Go's own.
func inherited() (s Sockets, err error) {
	// All are looked at before one is used: what that opens comes behind them,
	// and is a socket as well.
	var kinds []int
	for {
		kind, err := unix.GetsockoptInt(firstSocket+len(kinds), unix.SOL_SOCKET, unix.SO_TYPE)
		if err != nil {
			break
		}
		kinds = append(kinds, kind)
	}
	for i, kind := range kinds {
		file := os.NewFile(uintptr(firstSocket+i), "socket")
		if kind == unix.SOCK_DGRAM {
			conn, err := net.FilePacketConn(file)
			if err != nil {
				return s, fmt.Errorf("a socket for UDP: %w", err)
			}
			s.UDP = append(s.UDP, conn)
			continue
		}
		l, err := net.FileListener(file)
		if err != nil {
			return s, fmt.Errorf("a socket to listen on: %w", err)
		}
		if l.Addr().Network() == "unix" {
			s.Node = l
		} else {
			s.TCP = append(s.TCP, l)
		}
	}
	if s.Node == nil || len(s.UDP) == 0 {
		return s, fmt.Errorf("started without its sockets (setpoint starts it)")
	}
	return s, nil
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
