package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/setpoint-project/setpoint/internal/apiserver/gather"
)

// certificate of a test server.
var certificate = sync.OnceValue(func() tls.Certificate {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return s.TLS.Certificates[0]
})

// memory is a listener without a network.
type memory struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}
func (m *memory) Close() error   { m.once.Do(func() { close(m.done) }); return nil }
func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (m *memory) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case m.conns <- far:
		return near, nil
	case <-m.done:
		return nil, errors.New("the server is gone")
	}
}

// harness is a server of this package in memory, and a client of net/http's.
type harness struct {
	*memory
	srv    *http.Server
	client *http.Client
	served chan error
}

func start(t testing.TB, h http.HandlerFunc, with ...func(*http.Server)) *harness {
	t.Helper()
	x := &harness{memory: &memory{conns: make(chan net.Conn), done: make(chan struct{})}, served: make(chan error, 1)}
	x.srv = &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate()}}}
	for _, with := range with {
		with(x.srv)
	}
	Configure(x.srv)
	go func() { x.served <- x.srv.ServeTLS(gather.Listener(x.memory), "", "") }()
	x.client = &http.Client{Transport: &http.Transport{DialContext: x.dial, ForceAttemptHTTP2: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(func() {
		x.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := x.srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		<-x.served
	})
	return x
}

// peer is a client that may do what no client should.
type peer struct {
	t    testing.TB
	conn *tls.Conn
	fr   *http2.Framer
	enc  *hpack.Encoder
	buf  bytes.Buffer
}

func (x *harness) peer(t testing.TB, settings ...http2.Setting) *peer {
	t.Helper()
	raw, err := x.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, conn: tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})}
	p.enc = hpack.NewEncoder(&p.buf)
	p.fr = http2.NewFramer(p.conn, p.conn)
	p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	t.Cleanup(func() { raw.Close() })
	if _, err := p.conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	p.must(p.fr.WriteSettings(settings...))
	return p
}

func (p *peer) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// ask sends the header of a request; more are names and values.
func (p *peer) ask(id uint32, method, path string, end bool, more ...string) {
	p.t.Helper()
	p.buf.Reset()
	all := append([]string{":method", method, ":scheme", "https", ":path", path, ":authority", "test"}, more...)
	for i := 0; i < len(all); i += 2 {
		p.must(p.enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}))
	}
	p.must(p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.buf.Bytes(), EndStream: end, EndHeaders: true}))
}

// next reads frames until one is of kind T.
func next[T http2.Frame](p *peer) T {
	p.t.Helper()
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			p.t.Fatalf("no %T comes: %v", *new(T), err)
		}
		if f, ok := f.(T); ok {
			return f
		}
	}
}
