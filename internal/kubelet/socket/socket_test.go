package socket

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// TestDial: a server is reached by either form of its socket's name, and again
// after it was away.
func TestDial(t *testing.T) {
	dir, err := os.MkdirTemp("", "socket") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "x.sock")
	serve := func() (stop func()) {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
		go server.Serve(l)
		return server.Stop
	}
	var clients []grpc_health_v1.HealthClient
	for _, endpoint := range []string{path, "unix://" + path} {
		conn, err := Dial(endpoint) // before anybody serves there
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		clients = append(clients, grpc_health_v1.NewHealthClient(conn))
	}
	for range 2 {
		stop := serve()
		for i, c := range clients {
			_, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
			for status.Code(err) == codes.Unavailable { // it went by the connection of the server before
				_, err = c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
			}
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		}
		stop()
	}
}

func TestDialRefuses(t *testing.T) {
	for _, endpoint := range []string{"", "unix://", "tcp://127.0.0.1:1", "http://x/y", "://"} {
		if conn, err := Dial(endpoint); err == nil {
			conn.Close()
			t.Errorf("%q is taken for a socket", endpoint)
		}
	}
}
