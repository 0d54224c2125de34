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
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/socket"
)

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
	conn, err := socket.Dial(endpoint)
	if err != nil {
		return nil, err
	}
	c := &Client{RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn), conns: []*grpc.ClientConn{conn}}
	if imageEndpoint != "" && imageEndpoint != endpoint {
		if conn, err = socket.Dial(imageEndpoint); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	c.ImageServiceClient = runtimeapi.NewImageServiceClient(conn)
	return c, nil
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
