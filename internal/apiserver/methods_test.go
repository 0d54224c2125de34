package apiserver_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

// TestMethodsAndPaths: what kube-apiserver answers to methods and paths that no
// client of Kubernetes sends, in HTTP/1.1 and in HTTP/2. A path is taken as it
// comes, unescaped; a slash at its end changes nothing.
func TestMethodsAndPaths(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true, Paths: map[string]http.Handler{
		"/hello": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })}})
	create(t, h.Client("tester"), configMap("a"))
	const (
		text   = "404 text/plain 404 page not found"
		none   = "404 application/json the server could not find the requested resource"
		method = "405 application/json the server does not allow this method on the requested resource"
		list   = "200 application/json"
		ok     = "200 text/plain"
	)
	for _, test := range []struct{ method, path, want string }{
		{"GET", cmPath, list},
		{"GET", cmPath + "/", list},
		{"GET", cmPath + "/a/", list},
		{"GET", "/api/v1/namespaces/default%2Fconfigmaps", list},
		{"GET", "/api/v1/namespaces/default/%63onfigmaps", list},
		{"GET", cmPath + "/%61", list},
		{"GET", cmPath + "/%2e%2e", `404 application/json configmaps ".." not found`},
		{"GET", cmPath + "/..", `404 application/json configmaps ".." not found`},
		{"GET", cmPath + "/a%2Fstatus", none},
		{"GET", cmPath + "/a/b/c", none},
		{"GET", "/api/v1/namespaces/default/pods/p/status/more", none},
		{"GET", "/api/v1/namespaces/default/status/more", none},
		{"PUT", "/api/v1/nodes/n/status/more", none},
		{"GET", "/api/v1/namespaces/default/pods/p/log/more", none},
		{"PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale/more/", none},
		{"GET", "//api/v1/namespaces/default/configmaps", text},
		{"GET", "/api//v1/namespaces/default/configmaps", none},
		{"GET", "/api/v1//namespaces/default/configmaps", none},
		{"GET", "/api/../api/v1/configmaps", none},
		{"GET", "/api/./v1/configmaps", none},
		{"GET", "/../api/v1/configmaps", text},
		{"GET", "/API/v1/configmaps", text},
		{"GET", "/api/v1/ConfigMaps", none},
		{"GET", "/api/v9/configmaps", none},
		{"GET", "/apis/apps/v9/deployments", none},
		{"GET", "/apis/apps/v1/nothing", none},
		{"GET", "/apis/nobody.example.com/v1/things", text},
		{"POST", "/apis/nobody.example.com/v1/things", text},
		{"GET", "/apisx", text},
		{"GET", "/nothing", text},
		{"GET", "/hello/", text},
		{"GET", "/hello/you", text},
		{"GET", "/hell%6f", ok},
		{"POST", "/hello", ok},
		{"DELETE", "/nothing", text},
		{"GET", "/api/", list},
		{"GET", "/apis/", list},
		{"GET", "/apis/apps/", list},
		{"GET", "/apis/apps/v1/", list},
		{"GET", "/api/v9", none},
		{"GET", "/apis/apps/v9", none},
		{"GET", "/apis/nobody.example.com", text},
		{"POST", "/apis/apps/v1", method},
		{"POST", cmPath + "/a", method},
		{"POST", "/api/v1/configmaps", method},
		{"PUT", cmPath, method},
		{"PATCH", cmPath, method},
		{"DELETE", "/api/v1/configmaps", method},
		{"DELETE", "/apis/apps/v1/namespaces/default/deployments/d/status", method},
		{"HEAD", cmPath, "405 application/json"},
		{"HEAD", cmPath + "/a", "405 application/json"},
		{"HEAD", cmPath + "?watch=true", "405 application/json"},
		{"HEAD", "/apis/apps/v1/namespaces/default/deployments/d/scale", "405 application/json"},
		{"HEAD", "/hello", ok},
		{"OPTIONS", cmPath, method},
		{"OPTIONS", cmPath + "/a", method},
		{"OPTIONS", "*", "200 "},
		{"TRACE", cmPath, method},
		{"PROPFIND", cmPath + "/a", method},
		{"get", cmPath, method}, // methods are what they are to the letter
		{"GET", "*", text},
		{"CONNECT", cmPath, method},
		{"CONNECT", "example.com:443", text},
		{"GET", "http://example.com" + cmPath, list},
	} {
		first := test.method + " " + test.path + " HTTP/1.1"
		told := func(protocol string, resp *http.Response, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s over %s: %v", first, protocol, err)
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
			got := fmt.Sprint(resp.StatusCode, " ", kind)
			switch {
			case resp.Proto != protocol:
				t.Fatalf("the answer is %s, want %s", resp.Proto, protocol)
			case test.method == "HEAD" && len(body) > 0:
				t.Errorf("%s over %s has %d bytes", first, protocol, len(body))
			case test.method == "HEAD" || resp.StatusCode == http.StatusOK:
			case kind == "application/json":
				got += " " + decode[struct{ Message string }](t, string(body)).Message
			default:
				got += " " + strings.TrimSpace(string(body))
			}
			if got != test.want {
				t.Errorf("%s over %s\ngot  %s\nwant %s", first, protocol, got, test.want)
			}
		}
		conn, err := tls.Dial("tcp", h.HTTP.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s\r\nHost: cluster\r\nConnection: close\r\n\r\n", first)
		resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: test.method})
		told("HTTP/1.1", resp, err)
		conn.Close()
		if test.method == "CONNECT" || strings.HasPrefix(test.path, "http:") {
			continue // HTTP/2 has other forms for these
		}
		u, err := url.Parse(h.HTTP.URL)
		if err != nil {
			t.Fatal(err)
		}
		if rest, query, asked := strings.Cut(test.path, "?"); rest == "*" {
			u.Opaque = rest
		} else {
			if u.Path, err = url.PathUnescape(rest); err != nil {
				t.Fatal(err)
			}
			if u.RawPath = rest; asked {
				u.RawQuery = query
			}
		}
		resp, err = h.HTTP.Client().Do(&http.Request{Method: test.method, URL: u, Host: u.Host, Header: http.Header{}})
		told("HTTP/2.0", resp, err)
	}
}
