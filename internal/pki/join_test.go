package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// serveJoin is a server of a that knows only how to join, and counts.
func serveJoin(t *testing.T, a *Authority, token Token) (url string, calls *int) {
	t.Helper()
	serving, err := NewRotating(func() (*Pair, error) { return a.APIServer(nil, "cluster.local", nil, nil) })
	if err != nil {
		t.Fatal(err)
	}
	calls = new(int)
	h := a.JoinHandler(token, func() *x509.Certificate { return serving.Pair().Cert })
	ln, err := tls.Listen("tcp", "127.0.0.1:0", a.ServerTLS(serving))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{
		ErrorLog: log.New(io.Discard, "", 0), // refused handshakes are what some tests are about
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*calls++
			h.ServeHTTP(w, r)
		}),
	}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return "https://" + ln.Addr().String(), calls
}

func joinToken(t *testing.T, a *Authority) Token {
	t.Helper()
	token, err := a.JoinToken(filepath.Join(t.TempDir(), "token"))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestJoin(t *testing.T) {
	a := open(t, t.TempDir())
	token := joinToken(t, a)
	url, calls := serveJoin(t, a, token)
	o := JoinOptions{
		Server: url, Token: token.String() + "\n", Node: "n7", Dir: t.TempDir(),
		IPs: []net.IP{net.IPv4(10, 1, 2, 3)},
	}
	certs, err := Join(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := certs.Client.Cert.Subject; got.CommonName != "system:node:n7" || len(got.Organization) != 1 || got.Organization[0] != "system:nodes" {
		t.Errorf("the client certificate is for %v", got)
	}
	for _, name := range []string{"n7", "10.1.2.3"} {
		if err := certs.Serving.Cert.VerifyHostname(name); err != nil {
			t.Errorf("serving certificate: %v", err)
		}
	}
	for _, c := range []struct {
		p     *Pair
		usage x509.ExtKeyUsage
	}{{certs.Client, x509.ExtKeyUsageClientAuth}, {certs.Serving, x509.ExtKeyUsageServerAuth}} {
		if _, err := c.p.Cert.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{c.usage}}); err != nil {
			t.Error(err)
		}
	}
	again, err := Join(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !again.Client.Cert.Equal(certs.Client.Cert) || *calls != 1 {
		t.Errorf("joining again asked the server (%d calls)", *calls)
	}
	known := o
	known.Token = ""
	if certs, err := Join(context.Background(), known); err != nil || *calls != 1 || !certs.Client.Cert.Equal(again.Client.Cert) {
		t.Errorf("without the token, though it has joined: %v, %d calls", err, *calls)
	}
	known.Node = "n9"
	if _, err := Join(context.Background(), known); err == nil || !strings.Contains(err.Error(), "the join token is needed") {
		t.Errorf("another node without the token: %v", err)
	}
	o.IPs = []net.IP{net.IPv4(10, 1, 2, 4)}
	if _, err := Join(context.Background(), o); err != nil || *calls != 2 {
		t.Errorf("a new address: %v, %d calls, want 2", err, *calls)
	}
}

func TestJoinRefused(t *testing.T) {
	a := open(t, t.TempDir())
	token := joinToken(t, a)
	url, calls := serveJoin(t, a, token)
	other := open(t, t.TempDir())
	for _, tc := range []struct {
		name, server, token, node, want string
		reaches                         bool
	}{
		{"secret", url, Token{token.CAHash, "nonsense"}.String(), "n1", "wrong join token", true},
		{"authority", url, joinToken(t, other).String(), "n1", "not from the authority", false},
		{"no token", url, "abc", "n1", "CAHASH::SECRET", false},
		{"bad name", url, token.String(), "N_1", "node name", true},
		{"API server's name", url, token.String(), "kubernetes.default.svc", "name of the API server", true},
		{"not https", "http://x", token.String(), "n1", "https://HOST:PORT", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			*calls = 0
			_, err := Join(context.Background(), JoinOptions{Server: tc.server, Token: tc.token, Node: tc.node, Dir: t.TempDir()})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
			if (*calls > 0) != tc.reaches {
				t.Errorf("%d requests reached the server; a token must never go to a wrong one", *calls)
			}
		})
	}
}

func TestJoinHandlerRejectsNonsense(t *testing.T) {
	a := open(t, t.TempDir())
	h := a.JoinHandler(joinToken(t, a), func() *x509.Certificate { return nil })
	for _, tc := range []struct {
		method, body string
		code         int
	}{
		{"GET", "", 405},
		{"POST", "{", 400},
		{"POST", "{}", 401},
		{"POST", strings.Repeat("x", 70<<10), 400},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tc.method, JoinPath, strings.NewReader(tc.body)))
		if w.Code != tc.code {
			t.Errorf("%s %.10q: %d, want %d", tc.method, tc.body, w.Code, tc.code)
		}
	}
}

func TestJoinTokenStaysUntilTheAuthorityChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	a, b := open(t, t.TempDir()), open(t, t.TempDir())
	one, err := a.JoinToken(path)
	if err != nil {
		t.Fatal(err)
	}
	two, err := a.JoinToken(path)
	if err != nil {
		t.Fatal(err)
	}
	if one != two {
		t.Error("the token changed")
	}
	three, err := b.JoinToken(path)
	if err != nil {
		t.Fatal(err)
	}
	if three.CAHash != b.Hash() || three.Secret == one.Secret {
		t.Errorf("token of another authority kept: %v", three)
	}
}
