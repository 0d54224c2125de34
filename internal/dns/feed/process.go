package feed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Program is the file name of the DNS server's program. A process is known by
// its arguments: a program of that name, and the socket of its instance.
const Program = "setpoint-dns"

const (
	// patience is what a process gets to answer, or to end when asked.
	patience = 5 * time.Second
	poll     = 10 * time.Millisecond
)

// process is a running DNS server.
type process struct {
	pid     int
	program string
}

// running finds the servers of a socket: one, as a rule. The process table
// cannot be stale as a file with a number can.
func running(socket string) ([]process, error) {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		program, ok := serves(pid, socket)
		if !ok {
			continue
		}
		// Whatever looks the same in a container has a namespace of its own.
		if ns, err := os.Readlink("/proc/" + e.Name() + "/ns/pid"); err == nil && ns == own {
			out = append(out, process{pid, program})
		}
	}
	return out, nil
}

// serves tells whether a process is the server of a socket.
func serves(pid int, socket string) (program string, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return "", false
	}
	args := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	if len(args) != 2 || filepath.Base(args[0]) != Program || args[1] != socket {
		return "", false
	}
	return args[0], true
}

// end asks a process to end, and makes it.
func end(ctx context.Context, pid int, socket string) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil {
			if errors.Is(err, syscall.ESRCH) {
				return nil
			}
			return fmt.Errorf("end the DNS server, process %d: %w", pid, err)
		}
		for limit := time.Now().Add(patience); time.Now().Before(limit); {
			if _, there := serves(pid, socket); !there { // a zombie has no arguments
				return nil
			}
			select {
			case <-time.After(poll):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return fmt.Errorf("the DNS server, process %d, does not end though killed", pid)
}

// Stop ends the DNS server of a socket. That none runs is no error.
func Stop(ctx context.Context, socket string) error {
	list, err := running(socket)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range list {
		errs = append(errs, end(ctx, p.pid, socket))
	}
	return errors.Join(errs...)
}

// launch starts a server apart from us, with its sockets: whether an address
// can be had is known here, and the server needs no right to take it.
func launch(program, socket, logFile string, listen []netip.AddrPort) (*os.Process, error) {
	files := []*os.File{nil, nil, nil}
	defer func() {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}()
	var err error
	if files[0], err = os.Open(os.DevNull); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(logFile), 0o700); err != nil {
		return nil, err
	}
	// Anew with each start: what it says is why it ended.
	if files[1], err = os.OpenFile(logFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	files[2] = files[1]
	sockets, err := open(socket, listen)
	files = append(files, sockets...)
	if err != nil {
		return nil, err
	}
	p, err := os.StartProcess(program, []string{program, socket}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start the DNS server: %w", err)
	}
	return p, nil
}

// open opens the sockets that a server is started with.
func open(socket string, listen []netip.AddrPort) (files []*os.File, err error) {
	add := func(c interface {
		File() (*os.File, error)
		Close() error
	}) error {
		f, err := c.File()
		c.Close()
		if err == nil {
			files = append(files, f)
		}
		return err
	}
	for _, at := range listen {
		udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		if err != nil {
			return files, fmt.Errorf("the DNS server's address: %w", err)
		}
		if err := add(udp); err != nil {
			return files, err
		}
		tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		if err != nil {
			return files, fmt.Errorf("the DNS server's address: %w", err)
		}
		if err := add(tcp); err != nil {
			return files, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o711); err != nil {
		return files, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return files, err
	}
	node, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return files, err
	}
	node.SetUnlinkOnClose(false)
	if err := os.Chmod(socket, 0o600); err != nil {
		node.Close()
		return files, err
	}
	return files, add(node)
}
