package containerd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	streamapi "github.com/containerd/containerd/api/services/streaming/v1"
	transferapi "github.com/containerd/containerd/api/types/transfer"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// maxChunk bounds the data in one message of a byte stream.
const maxChunk = 32 << 10

// stream is one of the daemon's named streams. A stream is opened first and
// then named in a request, whose other input or output it becomes.
type stream struct {
	id string
	streamapi.Streaming_StreamClient
}

func openStream(ctx context.Context, conn grpc.ClientConnInterface) (*stream, error) {
	client, err := streamapi.NewStreamingClient(conn).Stream(ctx)
	if err != nil {
		return nil, err
	}
	s := &stream{id: rand.Text(), Streaming_StreamClient: client}
	if err := s.send(&streamapi.StreamInit{ID: s.id}); err != nil {
		return nil, err
	}
	// An empty answer says that the name is registered.
	if _, err := client.Recv(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *stream) send(m proto.Message) error {
	packed, err := pack(m)
	if err != nil {
		return err
	}
	return s.Send(packed)
}

// pack differs from anypb.New in that the type has no host before it, which is
// how the daemon names types.
func pack(m proto.Message) (*anypb.Any, error) {
	value, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	return &anypb.Any{TypeUrl: string(m.ProtoReflect().Descriptor().FullName()), Value: value}, nil
}

// copyFrom sends what r gives, no faster than the receiver grants: it sends
// window updates, each of which permits so many bytes more. The error is that
// of reading: when sending fails, the receiver has the reason, which may be that
// it needs no more.
func (s *stream) copyFrom(ctx context.Context, r io.Reader) error {
	grants := make(chan int64)
	go func() {
		defer close(grants)
		for {
			packed, err := s.Recv()
			if err != nil {
				return
			}
			var update transferapi.WindowUpdate
			if packed.MessageName() != update.ProtoReflect().Descriptor().FullName() || proto.Unmarshal(packed.Value, &update) != nil {
				continue
			}
			select {
			case grants <- int64(update.Update):
			case <-ctx.Done():
				return
			}
		}
	}()

	buffer := make([]byte, maxChunk)
	var window int64
	for {
		for window == 0 {
			grant, ok := <-grants
			if !ok {
				return nil
			}
			window += grant
		}
		n, err := r.Read(buffer[:min(window, maxChunk)])
		if n > 0 {
			window -= int64(n)
			if s.send(&transferapi.Data{Data: buffer[:n]}) != nil {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			_ = s.CloseSend()
			return nil
		}
		if err != nil {
			return fmt.Errorf("read image archive: %w", err)
		}
	}
}
