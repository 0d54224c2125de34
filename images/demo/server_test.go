package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var quiet = slog.New(slog.DiscardHandler)

func TestConfigFromEnv(t *testing.T) {
	host := func() (string, error) { return "host", nil }
	none := func() (string, error) { return "", errors.New("no name") }
	for _, test := range []struct {
		name     string
		env      map[string]string
		hostname func() (string, error)
		want     config
		fails    bool
	}{
		{"defaults", nil, host, config{":8080", "host", "dev", 3 * time.Second}, false},
		{"all set", map[string]string{"LISTEN": ":1", "POD_NAME": "pod", "DEMO_VERSION": "2", "DRAIN": "0s"}, none, config{":1", "pod", "2", 0}, false},
		{"bad drain", map[string]string{"DRAIN": "soon"}, host, config{}, true},
		{"negative drain", map[string]string{"DRAIN": "-1s"}, host, config{}, true},
		{"no name", nil, none, config{}, true},
	} {
		got, err := configFromEnv(func(key string) string { return test.env[key] }, test.hostname)
		if (err != nil) != test.fails {
			t.Errorf("%s: %v", test.name, err)
		}
		if err == nil {
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.name, diff)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	var draining atomic.Bool
	h := handler(config{Pod: "web-1", Version: "7"}, &draining)
	check := func(path string, code int, body string) {
		t.Helper()
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequest("GET", path, nil))
		if r.Code != code || r.Body.String() != body {
			t.Errorf("GET %s: %d %q, want %d %q", path, r.Code, r.Body, code, body)
		}
	}
	check("/", 200, "demo 7 from web-1\n")
	check("/any/path", 200, "demo 7 from web-1\n")
	check("/version", 200, "7\n")
	check("/healthz", 200, "ok\n")
	check("/readyz", 200, "ok\n")
	draining.Store(true)
	check("/", 200, "demo 7 from web-1\n")
	check("/healthz", 200, "ok\n")
	check("/readyz", 503, "draining\n")
}

// From SIGTERM on it serves for the drain time, open and new connections
// alike, and ends with all answered.
func TestDrainLosesNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		ctx, terminate := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- serve(ctx, listener, config{Pod: "p", Version: "1", Drain: 3 * time.Second}, quiet)
		}()
		client := &http.Client{Transport: &http.Transport{DialContext: listener.dial}}
		get := func() (close bool, err error) {
			r, err := client.Get("http://demo/")
			if err != nil {
				return false, err
			}
			defer r.Body.Close()
			_, err = io.Copy(io.Discard, r.Body)
			return r.Close, err
		}
		if closed, err := get(); err != nil || closed {
			t.Errorf("while it serves: close %v, %v", closed, err)
		}
		begin := time.Now()
		terminate()
		synctest.Wait()
		for time.Since(begin) < 2900*time.Millisecond {
			closed, err := get()
			if err != nil || !closed {
				t.Fatalf("%v into draining: close %v, %v; want an answer that closes the connection", time.Since(begin), closed, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		if took := time.Since(begin); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("it ended after %v, want 3s", took)
		}
		if _, err := get(); err == nil {
			t.Error("it serves after its end")
		}
		client.CloseIdleConnections()
	})
}

func TestServeFails(t *testing.T) {
	listener := newPipeListener()
	listener.Close()
	if err := serve(t.Context(), listener, config{}, quiet); err == nil {
		t.Error("serving on a closed listener succeeds")
	}
}

// pipeListener accepts connections in memory, whose time is the bubble's.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
