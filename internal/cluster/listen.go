package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

const (
	defaultHost = "127.0.0.1"
	defaultPort = 6443
)

// listen opens the API server's socket: at what the flag says, else where it
// was last time, else at the default port or the next free one.
func (s *State) listen(ctx context.Context, o *Options) (net.Listener, error) {
	addr := o.Listen
	if addr == "" {
		addr = s.Listen
	}
	if addr != "" {
		l, err := listenTCP(ctx, o, addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w (by another program; --listen names another port)", err)
		}
		return l, err
	}
	for port := defaultPort; port < defaultPort+100; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort(defaultHost, strconv.Itoa(port)))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, fmt.Errorf("no free port from %d to %d on %s; name one with --listen", defaultPort, defaultPort+99, defaultHost)
}

// hostOf is an address as a URL's host.
func hostOf(ip netip.Addr) string {
	if ip.Is6() {
		return "[" + ip.String() + "]"
	}
	return ip.String()
}

// reachable is the address by which this machine reaches a listener.
func reachable(l net.Listener) *net.TCPAddr {
	a := *l.Addr().(*net.TCPAddr)
	if a.IP.IsUnspecified() {
		a.IP = net.ParseIP(defaultHost)
	}
	return &a
}
