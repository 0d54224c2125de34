package apiserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/client"
)

// What another server serves behind the front door has no object here. A loop
// in this process reaches it as one over the network does, but for the network:
// requests and answers are bytes, and go by memory.
//
//	loop -> client.Remote -> loopback -> exchange (authorize) -> Extension -> the other server

// foreign are the clients for that, one for each identity that needed one. They
// end with the server.
type foreign struct {
	mu      sync.Mutex
	ended   bool                      // guarded by mu
	clients map[string]*client.Remote // guarded by mu
}

// elsewhere is how p reaches a resource that another server serves; nil: this
// server does, or nobody.
func (p *inProcess) elsewhere(res client.Resource) *client.Remote {
	if p.s.cfg.Extension == nil || res.Group == "" || p.s.catalog().byGVR[res] != nil || p.s.cfg.Extension(res.Group, res.Version) == nil {
		return nil
	}
	f := &p.s.foreign
	f.mu.Lock()
	defer f.mu.Unlock()
	key := strings.Join(append([]string{p.id.User, p.id.UserAgent}, p.id.Groups...), "\x00")
	if c := f.clients[key]; c != nil || f.ended {
		return c
	}
	c, err := client.NewRemote(&rest.Config{Host: "http://in-process", Transport: &loopback{s: p.s, user: p.user}}, p.id)
	if err != nil {
		p.s.log.Error("make a client for what other servers serve", "error", err)
		return nil
	}
	if f.clients == nil {
		f.clients = map[string]*client.Remote{}
	}
	f.clients[key] = c
	return c
}

func (f *foreign) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for _, c := range f.clients {
		c.Close()
	}
	clear(f.clients)
}

// loopback is an http.RoundTripper to the server that it is in. An answer is
// read while it is written, so that a watch goes on.
type loopback struct {
	s    *Server
	user *authn.User
}

// RoundTrip implements http.RoundTripper.
func (l *loopback) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	in := r.Clone(ctx)
	in.RequestURI = in.URL.RequestURI()
	in.URL.Scheme, in.URL.Host = "", ""
	if in.Body == nil {
		in.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	w := &answerWriter{header: http.Header{}, body: writer, begun: make(chan struct{})}
	go func() {
		defer func() {
			err := io.EOF
			if p := recover(); p != nil {
				err = errors.New("the server broke off")
				if p != http.ErrAbortHandler {
					panic(p)
				}
			}
			w.begin(http.StatusOK)
			writer.CloseWithError(err)
			cancel(err)
		}()
		l.s.exchange(w, in, l.user)
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		reader.CloseWithError(ctx.Err())
		return nil, context.Cause(ctx)
	}
	return &http.Response{
		StatusCode: w.code, Status: http.StatusText(w.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &answerBody{PipeReader: reader, cancel: cancel}, ContentLength: -1, Request: r,
	}, nil
}

// answerWriter is the server's side of an answer. Its fields are the handler's
// until begun is closed; code and sent the reader's from then on.
type answerWriter struct {
	header, sent http.Header
	code         int
	body         *io.PipeWriter
	begun        chan struct{}
	once         sync.Once
}

func (w *answerWriter) begin(code int) {
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		close(w.begun)
	})
}

// Header implements http.ResponseWriter.
func (w *answerWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *answerWriter) WriteHeader(code int) {
	if code >= 200 { // what comes before the answer is not for loops
		w.begin(code)
	}
}

func (w *answerWriter) Write(data []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.body.Write(data)
}

// Flush implements http.Flusher: nothing is held back but the header.
func (w *answerWriter) Flush() { w.begin(http.StatusOK) }

// answerBody ends the request when its reader has enough.
type answerBody struct {
	*io.PipeReader
	cancel context.CancelCauseFunc
}

func (b *answerBody) Close() error {
	b.cancel(errNoReader)
	return b.PipeReader.Close()
}
