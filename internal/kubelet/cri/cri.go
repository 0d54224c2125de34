// Package cri is the thin client of the container runtime interface (CRI v1):
// it dials the runtime, names the labels and annotations by which a pod's
// sandboxes and containers are known again after a restart, and takes a
// picture of what a pod has in the runtime.
//
// Runtime is simply the two generated gRPC clients together, so a test
// implements the calls it needs and a reader finds every call where the CRI
// documents it.
//
// Concurrency: everything here may be used from many goroutines.
//
// Failure: errors are those of gRPC (google.golang.org/grpc/status); IsNotFound
// tells a thing that is gone from a runtime in trouble.
package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage bounds one answer. A list of a full node's containers is far
// smaller; an ExecSync answer may be 16 MiB.
const maxMessage = 32 << 20

// Runtime is what the kubelet asks of a container runtime.
type Runtime interface {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient
}

// Client is a Runtime over gRPC.
type Client struct {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient
	conns []*grpc.ClientConn
}

// Dial makes a client of the runtime at a unix socket ("unix:///run/x.sock"
// or a path). imageEndpoint may be empty: the same socket. No connection is
// made before the first call, and a lost one is made anew.
func Dial(endpoint, imageEndpoint string) (*Client, error) {
	conn, err := dial(endpoint)
	if err != nil {
		return nil, err
	}
	c := &Client{RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn), conns: []*grpc.ClientConn{conn}}
	if imageEndpoint != "" && imageEndpoint != endpoint {
		if conn, err = dial(imageEndpoint); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	c.ImageServiceClient = runtimeapi.NewImageServiceClient(conn)
	return c, nil
}

func dial(endpoint string) (*grpc.ClientConn, error) {
	path := endpoint
	if strings.Contains(endpoint, "://") {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "unix" {
			return nil, fmt.Errorf("runtime endpoint %q is not of the form unix:///path", endpoint)
		}
		path = u.Path
	}
	if path == "" {
		return nil, fmt.Errorf("runtime endpoint %q names no socket", endpoint)
	}
	return grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", addr)
		}),
		// The socket is local: a runtime that comes back is used at once.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
}

// Close closes the connections.
func (c *Client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// IsNotFound tells whether err says that the sandbox, container or image does
// not exist.
func IsNotFound(err error) bool { return status.Code(err) == codes.NotFound }

// IsUnavailable tells whether err says that the runtime cannot be reached.
func IsUnavailable(err error) bool { return status.Code(err) == codes.Unavailable }

// Message is what a gRPC error says, without the words of gRPC around it.
func Message(err error) string {
	if err == nil {
		return ""
	}
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}
