package h2

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// maxStreams is how many requests a client may have open on a connection:
	// many watches share one.
	maxStreams = 1000
	// maxIdle is how many goroutines wait for the next request. One that has
	// served some has the stack that requests need.
	maxIdle = 64
)

// server is what the connections of an http.Server share.
type server struct {
	base *http.Server
	work chan *stream
	idle atomic.Int32
	stop chan struct{} // closed by Shutdown

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
	ended bool               // guarded by mu
}

// Configure makes srv serve HTTP/2 by this package.
func Configure(srv *http.Server) {
	s := &server{base: srv, work: make(chan *stream), stop: make(chan struct{}), conns: map[*conn]struct{}{}}
	if srv.TLSNextProto == nil {
		srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	srv.TLSNextProto["h2"] = func(_ *http.Server, c *tls.Conn, h http.Handler) {
		// Not h, which only fills in what is filled in already: it would lie on
		// the stack of each request, half a kilobyte for every watch.
		ctx := context.Background()
		if h, ok := h.(interface{ BaseContext() context.Context }); ok {
			ctx = h.BaseContext()
		}
		s.serveConn(ctx, c)
	}
	if srv.TLSConfig == nil {
		srv.TLSConfig = &tls.Config{}
	}
	for _, proto := range []string{"h2", "http/1.1"} {
		if !slices.Contains(srv.TLSConfig.NextProtos, proto) {
			srv.TLSConfig.NextProtos = append(srv.TLSConfig.NextProtos, proto)
		}
	}
	srv.RegisterOnShutdown(s.shutdown)
}

func (s *server) serveConn(ctx context.Context, t *tls.Conn) {
	c := newConn(ctx, s, t)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	ended := s.ended
	s.mu.Unlock()
	if ended {
		c.drain()
	}
	c.serve()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// shutdown lets every connection finish what it has begun.
func (s *server) shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	close(s.stop)
	for c := range s.conns {
		go c.drain()
	}
}

// start runs a request on a goroutine that waits, or on a new one.
func (s *server) start(st *stream) {
	select {
	case s.work <- st:
	default:
		go s.worker(st)
	}
}

func (s *server) worker(st *stream) {
	for {
		st.run()
		if s.idle.Add(1) > maxIdle {
			s.idle.Add(-1)
			return
		}
		select {
		case st = <-s.work:
			s.idle.Add(-1)
		case <-s.stop:
			s.idle.Add(-1)
			return
		}
	}
}
