package nodeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Channels of v5.channel.k8s.io, the first byte of each message.
// https://kubernetes.io/docs/reference/using-api/api-concepts/ and KEP-4006
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelError  = 3
	channelResize = 4
	// channelClose is followed by the number of a channel that ends.
	channelClose = 255

	protocolV5 = "v5.channel.k8s.io"
	protocolV4 = "v4.channel.k8s.io" // what is spoken over SPDY
)

const (
	pingPeriod  = 5 * time.Second
	pongTimeout = 60 * time.Second
	writeWait   = 10 * time.Second
)

// translate joins a WebSocket with v5.channel.k8s.io to the SPDY streams of a
// kubelet:
//
//	client  --[0]stdin-->  --stdin stream-->  kubelet
//	        --[4]resize--> --resize stream->
//	        <-[1]stdout--  <-stdout stream--
//	        <-[2]stderr--  <-stderr stream--
//	        <-[3]error---  <-error stream---  (a Status, at the end)
func (p *Proxy) translate(w http.ResponseWriter, r *http.Request, to *url.URL, s streams, pod string) error {
	conn, err := p.upgrade(r.Context(), to, protocolV4, pod)
	if err != nil {
		return err
	}
	kubelet, err := spdy.NewClientConnection(conn)
	if err != nil {
		conn.Close()
		return err
	}
	defer kubelet.Close()
	remote, err := openStreams(kubelet, s)
	if err != nil {
		return unreachable(err)
	}
	ws, err := upgrader(protocolV5).Upgrade(w, r, nil)
	if err != nil {
		return nil // Upgrade has answered
	}
	client := newSocket(ws)
	defer client.close()
	client.relay(r.Context(), kubelet, remote)
	return nil
}

// remote holds the kubelet's streams; those not asked for are nil.
type remote struct {
	errors, stdin, stdout, stderr, resize httpstream.Stream
}

func openStreams(conn httpstream.Connection, s streams) (*remote, error) {
	out := &remote{}
	for _, one := range []struct {
		kind string
		want bool
		into *httpstream.Stream
	}{
		{corev1.StreamTypeError, true, &out.errors},
		{corev1.StreamTypeStdin, s.stdin, &out.stdin},
		{corev1.StreamTypeStdout, s.stdout, &out.stdout},
		{corev1.StreamTypeStderr, s.stderr && !s.tty, &out.stderr},
		{corev1.StreamTypeResize, s.tty, &out.resize},
	} {
		if !one.want {
			continue
		}
		stream, err := conn.CreateStream(http.Header{corev1.StreamType: {one.kind}})
		if err != nil {
			return nil, fmt.Errorf("%s stream: %w", one.kind, err)
		}
		*one.into = stream
	}
	// Nothing is ever written to it. A quick command may be done already, and
	// the connection closed; what it said is still to be read.
	_ = out.errors.Close()
	return out, nil
}

// socket is the client's WebSocket. Only one may write at a time.
type socket struct {
	conn *websocket.Conn
	mu   sync.Mutex // held to write
}

func newSocket(conn *websocket.Conn) *socket {
	s := &socket{conn: conn}
	_ = conn.SetReadDeadline(time.Now().Add(pongTimeout))
	conn.SetPongHandler(func(string) error { return conn.SetReadDeadline(time.Now().Add(pongTimeout)) })
	return s
}

func upgrader(protocol string) *websocket.Upgrader {
	return &websocket.Upgrader{
		Subprotocols: []string{protocol},
		// Who may connect is decided by credentials, which no browser sends by
		// itself to this server.
		CheckOrigin: func(*http.Request) bool { return true },
	}
}

// relay copies in both directions until the command's status has come, or
// either side is gone.
func (s *socket) relay(ctx context.Context, kubelet httpstream.Connection, to *remote) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A blocked read ends when the connection does.
	stop := context.AfterFunc(ctx, func() {
		kubelet.Close()
		s.conn.Close()
	})
	defer stop()
	go s.ping(ctx)
	go func() {
		defer cancel() // the client is gone: so is its command's terminal
		s.readInto(to)
	}()

	// The status comes last; but output may still be on its way then.
	var out sync.WaitGroup
	for channel, from := range map[byte]httpstream.Stream{channelStdout: to.stdout, channelStderr: to.stderr} {
		if from != nil {
			out.Go(func() { s.writeFrom(channel, from) })
		}
	}
	out.Go(func() {
		if said := s.writeFrom(channelError, to.errors); !said && ctx.Err() == nil {
			s.write(websocket.BinaryMessage, append([]byte{channelError}, lostStatus...))
		}
	})
	done := make(chan struct{})
	go func() { out.Wait(); close(done) }()
	select {
	case <-done:
	case <-kubelet.CloseChan():
		<-done // its streams end with it
	case <-ctx.Done():
	}
}

// readInto writes what the client sends into the kubelet's streams.
func (s *socket) readInto(to *remote) {
	streamOf := func(channel byte) httpstream.Stream {
		switch channel {
		case channelStdin:
			return to.stdin
		case channelResize:
			return to.resize
		}
		return nil
	}
	for {
		kind, message, err := s.conn.ReadMessage()
		if err != nil {
			return
		}
		_ = s.conn.SetReadDeadline(time.Now().Add(pongTimeout))
		if kind != websocket.BinaryMessage || len(message) == 0 {
			continue
		}
		if message[0] == channelClose {
			if len(message) == 2 {
				if stream := streamOf(message[1]); stream != nil {
					_ = stream.Close()
				}
			}
			continue
		}
		if stream := streamOf(message[0]); stream != nil && len(message) > 1 {
			if _, err := stream.Write(message[1:]); err != nil && message[0] != channelStdin {
				return
			}
			// A command may end its standard input and live on.
		}
	}
}

// lostStatus is what a client is told whose kubelet went away before it gave the
// command's status: without one the client would take it for success.
var lostStatus = func() []byte {
	status := apierrors.NewInternalError(errors.New("the connection to the node was lost before the command ended")).Status()
	data, err := json.Marshal(status)
	if err != nil {
		panic(fmt.Sprintf("nodeproxy: a literal cannot be marshalled: %v", err))
	}
	return data
}()

// writeFrom sends what comes from a stream of the kubelet, and tells whether
// anything came.
func (s *socket) writeFrom(channel byte, from io.Reader) (any bool) {
	buf := make([]byte, 32<<10)
	buf[0] = channel
	for {
		n, err := from.Read(buf[1:])
		any = any || n > 0
		if n > 0 && s.write(websocket.BinaryMessage, buf[:n+1]) != nil {
			return any
		}
		if err != nil {
			return any
		}
	}
}

func (s *socket) write(kind int, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.WriteMessage(kind, data)
}

// ping keeps the connection alive through what forgets idle ones, and finds
// out when the client is gone.
func (s *socket) ping(ctx context.Context) {
	tick := time.NewTicker(pingPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeWait)) != nil {
				return
			}
		}
	}
}

// close says goodbye properly.
func (s *socket) close() {
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(writeWait))
	_ = s.conn.Close()
}
