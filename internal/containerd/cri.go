package containerd

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// dial returns a connection to the daemon, which need not be up yet. It
// reconnects within milliseconds: the daemon is local and starts fast.
func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.3, Jitter: 0.1, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)),
	)
}

// awaitCRI returns when the daemon serves CRI. The socket appears a little
// before CRI is initialised; until then its calls fail as Unavailable, just as
// they do when there is no daemon. So ctx has to end when the daemon does.
func awaitCRI(ctx context.Context, conn *grpc.ClientConn) error {
	client := cri.NewRuntimeServiceClient(conn)
	return poll(ctx, func() (bool, error) {
		_, err := client.Status(ctx, &cri.StatusRequest{}, grpc.WaitForReady(true))
		if c := status.Code(err); c == codes.Unavailable || c == codes.Unknown {
			return false, nil
		}
		return err == nil, err
	})
}

// poll calls done every few milliseconds until it says true or fails. It is
// for what the daemon does within milliseconds and does not announce.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case ok:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
