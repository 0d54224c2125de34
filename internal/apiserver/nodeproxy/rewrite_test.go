package nodeproxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// TestRewriting: links of pages and redirects lead back through the proxy;
// what is relative, leads elsewhere or is no HTML stays as it is.
func TestRewriting(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/there/", http.StatusFound)
		case "/text":
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, `<a href="/x">x</a>`)
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprintf(w, `<a href="/x">x</a><a href="y">y</a><img src="/z.png"/><a href="https://example.org/w">w</a><a href="http://%s/v/">v</a>`, r.Context().Value(http.LocalAddrContextKey))
		}
	}))
	defer app.Close()
	far, err := url.Parse(app.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		namespace, prefix, rest, want, location string
	}{
		{"web", "/api/v1/namespaces/web/pods/x:80/proxy", "/", `<a href="P/x">x</a><a href="y">y</a><img src="P/z.png"/><a href="https://example.org/w">w</a><a href="P/v/">v</a>`, ""},
		{"web", "/api/v1/namespaces/web/services/s/proxy", "/a/b", `<a href="P/x">x</a><a href="y">y</a><img src="P/z.png"/><a href="https://example.org/w">w</a><a href="P/v/">v</a>`, ""},
		{"web", "/api/v1/namespaces/web/pods/x/proxy", "/text", `<a href="/x">x</a>`, ""},
		{"web", "/api/v1/namespaces/web/pods/x/proxy", "/moved", "", "P/there/"},
	} {
		r := httptest.NewRequest("GET", tc.prefix+tc.rest, nil)
		a := &authz.Attributes{Namespace: tc.namespace}
		to := *far
		to.Path = tc.rest
		w := httptest.NewRecorder()
		forward(w, r, &to, rewriting(http.DefaultTransport, r, a), nil)
		through := func(s string) string { return strings.ReplaceAll(s, "P/", tc.prefix+"/") }
		if got := w.Body.String(); tc.want != "" && got != through(tc.want) {
			t.Errorf("%s%s: got %s, want %s", tc.prefix, tc.rest, got, through(tc.want))
		}
		if got := w.Header().Get("Location"); got != through(tc.location) {
			t.Errorf("%s%s: leads to %q, want %q", tc.prefix, tc.rest, got, through(tc.location))
		}
	}
}

// TestToRoot: readers of the root are sent to it, with what they ask; all else
// goes on as it came.
func TestToRoot(t *testing.T) {
	const pod = "/api/v1/namespaces/web/pods/x:80/proxy"
	a := &authz.Attributes{Namespace: "web"}
	for _, tc := range []struct{ method, path, upgrade, to string }{
		{"GET", pod + "?a=b&c=%2F", "", pod + "/?a=b&c=%2F"},
		{"HEAD", pod, "", pod + "/"},
		{"POST", pod, "", ""},
		{"GET", pod + "/", "", ""},
		{"GET", pod + "/proxy", "", ""},
		{"GET", pod, "websocket", ""},
	} {
		r := httptest.NewRequest(tc.method, tc.path, nil)
		if tc.upgrade != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", tc.upgrade)
		}
		w := httptest.NewRecorder()
		sent := toRoot(w, r, a)
		if got := w.Header().Get("Location"); sent != (tc.to != "") || got != tc.to || sent && w.Code != http.StatusMovedPermanently {
			t.Errorf("%s %s %s: sent %v (%d) to %q, want %q", tc.method, tc.path, tc.upgrade, sent, w.Code, got, tc.to)
		}
	}
}
