package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/test/freeport"
)

func TestLogOptions(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	o, err := logOptions(url.Values{"follow": {"true"}, "tailLines": {"5"}, "limitBytes": {"10"}, "sinceSeconds": {"60"}, "timestamps": {"1"}}, now)
	if err != nil || !o.Follow || !o.Timestamps || *o.Tail != 5 || *o.Limit != 10 || !o.Since.Equal(now.Add(-time.Minute)) {
		t.Errorf("options are %+v, %v", o, err)
	}
	for _, bad := range []string{"tailLines=-1", "tailLines=x", "limitBytes=0", "sinceSeconds=0", "sinceTime=yesterday", "sinceSeconds=1&sinceTime=2026-11-29T12:00:00Z"} {
		q, _ := url.ParseQuery(bad)
		if _, err := logOptions(q, now); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestWanted(t *testing.T) {
	for q, want := range map[string]streams{
		"input=1&output=1&error=1": {true, true, true, false}, "stdin=true&stdout=true": {true, true, false, false},
		"output=1&error=1&tty=1": {false, true, false, true},
	} {
		v, _ := url.ParseQuery(q)
		if got, err := wanted(v); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", q, got, err, want)
		}
	}
	if _, err := wanted(url.Values{"tty": {"1"}}); err == nil {
		t.Error("no stream at all was taken")
	}
}

// TestBothFamilies: it answers at each of its addresses, until it is to end.
func TestBothFamilies(t *testing.T) {
	authority, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.KubeletServing("n", []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback})
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(freeport.Port(t))
	at := []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	s, err := New(Options{Addrs: at, ClientCA: authority.Pool(),
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.TLS(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool()}}}
	for _, addr := range at {
		for {
			resp, err := c.Get("https://" + addr + "/healthz")
			if err == nil {
				resp.Body.Close()
				break
			}
			select {
			case err := <-done:
				t.Fatalf("it ended by itself: %v", err)
			case <-time.After(time.Millisecond):
			}
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatal(err)
			}
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// Without a certificate only the health is answered.
func TestAuthentication(t *testing.T) {
	s := &Server{access: newAccess(nil, "n")}
	h := s.Handler()
	for path, want := range map[string]int{"/healthz": 200, "/pods": 401, "/exec/a/b/c": 401, "/nothing": 401} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a server without a client CA was made")
	}
}
