// Package socket dials the programs that the kubelet speaks with on the node:
// the container runtime and plugins, each by gRPC on a unix socket.
//
// Concurrency and failure: as a grpc.ClientConn's.
package socket

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// maxMessage bounds one answer. A list of a full node's containers is far
// smaller; an ExecSync answer may be 16 MiB.
const maxMessage = 32 << 20

// Dial makes a client of the server at a unix socket ("unix:///run/x.sock" or
// a path). No connection is made before the first call, and a lost one is made
// anew.
func Dial(endpoint string) (*grpc.ClientConn, error) {
	path := endpoint
	if strings.Contains(endpoint, "://") {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "unix" {
			return nil, fmt.Errorf("endpoint %q is not of the form unix:///path", endpoint)
		}
		path = u.Path
	}
	if path == "" {
		return nil, fmt.Errorf("endpoint %q names no socket", endpoint)
	}
	return grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", addr)
		}),
		// The socket is local: a server that comes back is used at once.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
}
