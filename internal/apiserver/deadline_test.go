package apiserver_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

// bothProtocols runs f over HTTP/2 and over HTTP/1.1.
func bothProtocols(t *testing.T, o apitest.Options, f func(t *testing.T, h *apitest.Harness, w *web)) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) {
			o.HTTP = true
			h := apitest.New(t, o)
			w := newWeb(t, h)
			tr := w.client.Transport.(*http.Transport).Clone()
			tr.DialContext = smallBuffer
			if version == 1 {
				tr.ForceAttemptHTTP2, tr.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
				tr.TLSClientConfig.NextProtos = nil
			}
			w.client = &http.Client{Transport: tr}
			t.Cleanup(tr.CloseIdleConnections)
			if resp, _ := w.do("GET", cmPath, ""); resp.ProtoMajor != version {
				t.Fatalf("the protocol is %s", resp.Proto)
			}
			f(t, h, w)
		})
	}
}

// smallBuffer dials with a buffer so small that answers stand still when they
// are not read.
func smallBuffer(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		err = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	}
	return conn, err
}

func TestTimeoutParameter(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	const status = "/api/v1/namespaces/default/status"
	for _, path := range []string{cmPath, status} {
		got := w.want(400, "GET", path+"?timeout=soon", "")
		if want := `"message":"invalid timeout specified in the request URL - time: invalid duration \"soon\"","reason":"BadRequest"`; !strings.Contains(got, want) {
			t.Errorf("%s: got %s", path, got)
		}
		w.want(200, "GET", path+"?timeout=0s", "")
		w.want(200, "GET", path+"?timeout=10h", "")
	}
	// A revision that does not come is waited for no longer than the client.
	got := w.want(504, "GET", cmPath+"?resourceVersion=1000000&timeout=1ms", "")
	if !strings.Contains(got, `"reason":"Timeout"`) {
		t.Errorf("got %s", got)
	}
}

// TestBodyThatDoesNotCome: who announces a body and sends half of it gets a
// timeout; who goes away frees the handler.
func TestBodyThatDoesNotCome(t *testing.T) {
	ended := make(chan struct{}, 10)
	bothProtocols(t, apitest.Options{}, func(t *testing.T, h *apitest.Harness, w *web) {
		inner := h.HTTP.Config.Handler
		h.HTTP.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(rw, r)
			if r.Method == http.MethodPost {
				ended <- struct{}{}
			}
		})
		post := func(ctx context.Context, query string) (*http.Response, error) {
			body, half := io.Pipe()
			t.Cleanup(func() { half.Close() })
			go half.Write([]byte(`{"kind":"ConfigMap",`))
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+cmPath+query, body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = 1000
			r.Header.Set("Content-Type", "application/json")
			return w.client.Do(r)
		}
		resp, err := post(t.Context(), "?timeout=20ms")
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 504 || !strings.Contains(string(data), "request did not complete within requested timeout - context deadline exceeded") {
			t.Errorf("got %d: %s", resp.StatusCode, data)
		}
		<-ended

		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := post(ctx, ""); err == nil {
			t.Error("a request that was given up has an answer")
		}
		w.want(200, "GET", cmPath, "") // others are served
	})
}

// TestAnswerThatNobodyReads: the handler of a long answer ends although the
// client reads none of it.
func TestAnswerThatNobodyReads(t *testing.T) {
	ended := make(chan struct{}, 10)
	bothProtocols(t, apitest.Options{}, func(t *testing.T, h *apitest.Harness, w *web) {
		for i := range 16 {
			create(t, h.Client("t"), configMap(fmt.Sprint("cm-", i), "k", strings.Repeat("x", 900<<10)))
		}
		inner := h.HTTP.Config.Handler
		h.HTTP.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(rw, r)
			ended <- struct{}{}
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+cmPath+"?timeout=20ms", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "identity")
		resp, err := w.client.Do(r)
		<-ended
		if err != nil {
			return // it was cut off before its header
		}
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Error("the answer is whole")
		}
		resp.Body.Close()
	})
}

// TestStopEndsWatches: when the server stops, watches end as if their time were
// over, and what was asked for is still answered.
func TestStopEndsWatches(t *testing.T) {
	bothProtocols(t, apitest.Options{}, func(t *testing.T, h *apitest.Harness, w *web) {
		for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf;stream=watch"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+cmPath+"?watch=1", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept", accept)
			resp, err := w.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			defer func() {
				if data, err := io.ReadAll(resp.Body); err != nil || strings.Contains(string(data), "ERROR") {
					t.Errorf("%s: the watch ends with %v: %q", accept, err, data)
				}
			}()
		}
		if err := h.Stop(); err != nil {
			t.Error(err)
		}
		w.want(201, "POST", cmPath, toJSON(t, configMap("late")))
		w.want(503, "GET", cmPath+"?watch=1", "")
	})
}

// TestOldWatchPaths: /watch/ in front of a path watches what it names.
func TestOldWatchPaths(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	c := h.Client("t")
	create(t, c, configMap("a"))
	create(t, c, configMap("b"))
	for path, want := range map[string]int{
		"/api/v1/watch/configmaps":                          2,
		"/api/v1/watch/namespaces/default/configmaps":       2,
		"/api/v1/watch/namespaces/default/configmaps/a":     1,
		"/api/v1/watch/namespaces/kube-system/configmaps":   0,
		"/api/v1/watch/namespaces":                          2,
		"/api/v1/watch/namespaces/default":                  1,
		"/apis/apps/v1/watch/deployments":                   0,
		"/apis/apps/v1/watch/namespaces/default/daemonsets": 0,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel() // each takes the second that is the least timeout
			w := &web{t: t, client: w.client, url: w.url}
			got := w.want(200, "GET", path+"?timeoutSeconds=1&resourceVersion=0", "")
			if n := strings.Count(got, `{"type":"ADDED"`); n != want {
				t.Errorf("%d events, want %d", n, want)
			}
		})
	}
	w.want(405, "POST", "/api/v1/watch/namespaces/default/configmaps", "{}")
	w.want(404, "GET", "/api/v1/watch", "")
}
