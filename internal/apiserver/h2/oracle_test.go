package h2

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cases are requests and what answers them.
var cases = []struct {
	name    string
	request func(url string) *http.Request
	handler http.HandlerFunc
}{
	{"nothing", get, func(http.ResponseWriter, *http.Request) {}},
	{"short", get, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}\n") }},
	{"a type", get, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "<html>")
	}},
	{"no type but an encoding", get, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		io.WriteString(w, "<html>")
	}},
	{"a length", get, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK) // too late
		w.Header().Set("Late", "x")
		io.WriteString(w, "12345")
	}},
	{"a wrong length", get, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "five")
		io.WriteString(w, "12345")
	}},
	{"in pieces", get, func(w http.ResponseWriter, r *http.Request) {
		for i := range 1000 {
			fmt.Fprintln(w, "line", i)
			if i%300 == 0 {
				w.(http.Flusher).Flush()
			}
		}
	}},
	{"a flush first", get, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		io.WriteString(w, "more")
	}},
	{"4096 bytes", get, sized(4096)},
	{"4097 bytes", get, sized(4097)},
	{"16384 bytes", get, sized(16384)},
	{"three megabytes", get, sized(3 << 20)},
	{"204", get, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "x"); err != http.ErrBodyNotAllowed {
			panic(err)
		}
	}},
	{"304", get, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotModified) }},
	{"HEAD", method(http.MethodHead), func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "not sent") }},
	{"HEAD, nothing", method(http.MethodHead), func(w http.ResponseWriter, r *http.Request) {}},
	{"HEAD, a length", method(http.MethodHead), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		w.WriteHeader(200)
	}},
	{"useless headers", get, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Connection"], h["Transfer-Encoding"] = []string{"keep-alive"}, []string{"chunked"}
		h["X-Two"] = []string{"1", "2"}
		h["bad name"], h["X-Bad"] = []string{"x"}, []string{"a\nb"}
	}},
	{"trailers, announced", get, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum, x-other")
		w.Header().Set("X-Sum", "before")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "after")
		w.Header().Set("X-Not", "announced")
	}},
	{"trailers, marked", get, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "body")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Sum", "after")
	}},
	{"early hints", get, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</x>")
		w.Header().Set("Content-Length", "5") // of what will follow
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Content-Length")
		io.WriteString(w, "then")
	}},
	{"long headers", func(url string) *http.Request {
		r := get(url)
		for i := range 40 {
			r.Header.Set(fmt.Sprint("X-Long-", i), strings.Repeat("a~", 900))
		}
		return r
	}, func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), r.Header)
		w.Header()["X-Longest"] = []string{strings.Repeat("~b", 40000)}
	}},
	{"cookies", func(url string) *http.Request {
		r := get(url)
		r.Header["Cookie"] = []string{"a=1; b=2; c=3", "d=4"}
		return r
	}, tell},
	{"a query", func(url string) *http.Request { return get(url + "/a%2Fb/c?d=e%20f&g") }, tell},
	{"a body", post("some text"), tell},
	{"no body", post(""), tell},
	{"a body of no length", func(url string) *http.Request {
		r, _ := http.NewRequest(http.MethodPost, url, struct{ io.Reader }{strings.NewReader(strings.Repeat("text", 500000))})
		return r
	}, tell},
	{"trailers with a body", func(url string) *http.Request {
		r, _ := http.NewRequest(http.MethodPost, url, struct{ io.Reader }{strings.NewReader("text")})
		r.Trailer = http.Header{"X-Sum": {"1"}, "X-Two": {"2", "3"}}
		return r
	}, tell},
	{"a body of which only the beginning is read", post(strings.Repeat("x", 300000)), func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(w, r.Body, 10)
		r.Body.Close()
		_, err := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, err != nil)
	}},
	{"expects to be asked", func(url string) *http.Request {
		r := post("text")(url)
		r.Header.Set("Expect", "100-continue")
		return r
	}, tell},
	{"expects to be asked, and is not", func(url string) *http.Request {
		r := post("text")(url)
		r.Header.Set("Expect", "100-continue")
		return r
	}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }},
	{"panic", get, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
	{"panic amid the body", get, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}},
	{"methods", method("PROPFIND"), tell},
	{"the server as a whole", func(url string) *http.Request {
		r := method(http.MethodOptions)(url)
		r.URL.Opaque = "*"
		return r
	}, tell},
}

func get(url string) *http.Request { return method(http.MethodGet)(url) }

func method(m string) func(string) *http.Request {
	return func(url string) *http.Request {
		r, err := http.NewRequest(m, url, nil)
		if err != nil {
			panic(err)
		}
		return r
	}
}

func post(body string) func(string) *http.Request {
	return func(url string) *http.Request {
		r, _ := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		return r
	}
}

func sized(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.Write(bytes.Repeat([]byte("x"), n)) }
}

// tell writes what a handler sees of its request.
func tell(w http.ResponseWriter, r *http.Request) {
	announced := slices.Sorted(maps.Keys(r.Trailer))
	n, err := io.Copy(io.Discard, r.Body)
	fmt.Fprintln(w, r.Method, r.URL, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor, r.ContentLength, r.TransferEncoding, r.Close)
	fmt.Fprintln(w, n, err, announced, r.Trailer, r.TLS.NegotiatedProtocol, r.TLS.HandshakeComplete, r.Form)
	h := r.Header.Clone()
	for _, key := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(w, "%s: %q\n", key, h[key])
	}
	_, local := r.Context().Value(http.LocalAddrContextKey).(interface{ Network() string })
	_, server := r.Context().Value(http.ServerContextKey).(*http.Server)
	fmt.Fprintln(w, local, server)
}

// TestAsNetHTTP: whatever a handler does, its client sees what net/http's own
// server would show it.
func TestAsNetHTTP(t *testing.T) {
	serve := func(w http.ResponseWriter, r *http.Request) {
		for _, c := range cases {
			if c.name == r.Header.Get("Case") {
				r.Header.Del("Case")
				c.handler(w, r)
			}
		}
	}
	theirs := httptest.NewUnstartedServer(http.HandlerFunc(serve))
	theirs.EnableHTTP2 = true
	theirs.StartTLS()
	defer theirs.Close()
	theirs.Client().Transport.(*http.Transport).DisableCompression = true
	ours := start(t, serve)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ask := func(client *http.Client) string {
				r := c.request(theirs.URL) // the name is in the answer
				r.Header.Set("Case", c.name)
				return shown(client, r)
			}
			want := ask(theirs.Client())
			if diff := cmp.Diff(want, ask(ours.client)); diff != "" {
				t.Errorf("net/http's answer differs (-net/http +ours):\n%s", diff)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		want := map[string]string{}
		ask := func(client *http.Client, i int) string {
			r := cases[i].request(theirs.URL)
			r.Header.Set("Case", cases[i].name)
			return shown(client, r)
		}
		for i, c := range cases {
			want[c.name] = ask(theirs.Client(), i)
		}
		var wg sync.WaitGroup
		for range 5 {
			for i, c := range cases {
				wg.Go(func() {
					if diff := cmp.Diff(want[c.name], ask(ours.client, i)); diff != "" {
						t.Errorf("%s: (-net/http +ours):\n%s", c.name, diff)
					}
				})
			}
		}
		wg.Wait()
	})
}

// shown is all that a client sees of an answer.
func shown(client *http.Client, r *http.Request) string {
	var out strings.Builder
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		fmt.Fprintln(&out, code, h)
		return nil
	}}))
	resp, err := client.Do(r)
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if _, ok := resp.Header["Date"]; ok {
		resp.Header.Set("Date", "some")
	}
	fmt.Fprintln(&out, resp.Status, resp.Proto, resp.ContentLength, resp.Uncompressed, err != nil)
	for _, h := range []http.Header{resp.Header, resp.Trailer} {
		for _, key := range slices.Sorted(maps.Keys(h)) {
			fmt.Fprintf(&out, "%s: %.80q\n", key, h[key])
		}
		fmt.Fprintln(&out)
	}
	if len(data) > 4000 {
		fmt.Fprintln(&out, len(data))
		data = data[:4000]
	}
	out.Write(data)
	return out.String()
}
