package envtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/test/freeport"
)

// start runs one of the programs for as long as the test.
func start(t *testing.T, run func(context.Context, []string, io.Writer, io.Writer) error, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var told bytes.Buffer
	go func() { ended <- run(ctx, args, io.Discard, &told) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
		if told.Len() > 0 {
			t.Errorf("it said %q", told.String())
		}
	})
}

// ask sends requests until one is answered.
func ask(t *testing.T, c *http.Client, req *http.Request) (int, string) {
	t.Helper()
	for {
		res, err := c.Do(req)
		if err == nil {
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode, string(body)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
}

func pool(certs []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p
}

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestEtcd(t *testing.T) {
	at := fmt.Sprint("http://127.0.0.1:", freeport.Port(t))
	start(t, RunEtcd, "--listen-client-urls="+at, "--listen-peer-urls=http://127.0.0.1:0", "--data-dir=/nowhere", "--advertise-client-urls="+at, "--unsafe-no-fsync=true")
	code, body := ask(t, http.DefaultClient, get(t, at+"/health"))
	var health struct{ Health string }
	if err := json.Unmarshal([]byte(body), &health); err != nil || code != 200 || health.Health != "true" {
		t.Errorf("health: %d %s", code, body)
	}
}

// certs are what envtest brings: a serving certificate of one authority,
// client certificates of another, and a key for service account tokens.
func certs(t *testing.T) (dir string, client tls.Certificate) {
	t.Helper()
	dir = t.TempDir()
	serving, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	clients, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server, err := serving.APIServer(nil, "cluster.local", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := clients.Admin()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"apiserver.crt": server.CertPEM, "apiserver.key": server.KeyPEM, "client-ca.crt": clients.CAPEM(), "serving-ca.crt": serving.CAPEM(),
		"sa.key": server.KeyPEM, "sa.crt": server.CertPEM, "tokens.csv": []byte("s3cret,jane,1,\"dev, system:masters\"\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, *admin.TLS()
}

// TestAPIServer: the server shows the certificate it was given, knows users by
// the authorities, tokens and keys it was given, and leaves admission plugins
// out as it is told.
func TestAPIServer(t *testing.T) {
	dir, admin := certs(t)
	port := fmt.Sprint(freeport.Port(t))
	in := func(name string) string { return filepath.Join(dir, name) }
	start(t, RunAPIServer, "--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1", "--cert-dir="+dir,
		"--client-ca-file="+in("client-ca.crt"), "--disable-admission-plugins=ServiceAccount", "--etcd-servers=http://127.0.0.1:1", "--secure-port="+port,
		"--service-account-issuer=https://127.0.0.1:"+port+"/", "--service-account-key-file="+in("sa.crt"),
		"--service-account-signing-key-file="+in("sa.key"), "--service-cluster-ip-range=10.0.0.0/24", "--token-auth-file="+in("tokens.csv"))
	url := "https://127.0.0.1:" + port
	roots, err := certificates(in("serving-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	client := func(certs ...tls.Certificate) *http.Client {
		cfg := &tls.Config{Certificates: certs, ServerName: "localhost", RootCAs: pool(roots)}
		tr := &http.Transport{TLSClientConfig: cfg}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	asAdmin, asNobody := client(admin), client()
	for code := 0; code != 200; { // as envtest asks
		code, _ = ask(t, asNobody, get(t, url+"/healthz"))
	}
	withToken := func(req *http.Request, token string) *http.Request {
		req.Header.Set("Authorization", "Bearer "+token)
		return req
	}
	post := func(path, body string) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		return req
	}
	// The namespace is made by the server itself, in its own time.
	for code := 0; code != 200; {
		code, _ = ask(t, asAdmin, get(t, url+"/api/v1/namespaces/default"))
	}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	const account = `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"}}`
	const request = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`
	for _, test := range []struct {
		what   string
		client *http.Client
		req    *http.Request
		code   int
		has    string
	}{
		{"nobody", asNobody, get(t, url+"/api/v1/pods"), 403, "system:anonymous"},
		{"a token of the file", asNobody, withToken(get(t, url+"/api/v1/pods"), "s3cret"), 200, "PodList"},
		{"another token", asNobody, withToken(get(t, url+"/api/v1/pods"), "wrong"), 401, "Unauthorized"},
		{"a pod without a service account", asAdmin, post("/api/v1/namespaces/default/pods", pod), 201, `"name":"p"`},
		{"a service account", asAdmin, post("/api/v1/namespaces/default/serviceaccounts", account), 201, `"name":"a"`},
	} {
		if code, body := ask(t, test.client, test.req); code != test.code || !strings.Contains(body, test.has) {
			t.Errorf("%s: got %d %s, want %d with %q", test.what, code, body, test.code, test.has)
		}
	}
	_, body := ask(t, asAdmin, post("/api/v1/namespaces/default/serviceaccounts/a/token", request))
	var issued struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(body), &issued); err != nil {
		t.Fatal(err, body)
	}
	want := fmt.Sprintf("system:serviceaccount:default:%s", "a")
	if code, body := ask(t, asNobody, withToken(get(t, url+"/api/v1/pods"), issued.Status.Token)); code != 403 || !strings.Contains(body, want) {
		t.Errorf("a service account's token: got %d %s, want a refusal of %s", code, body, want)
	}
}

// TestAPIServerRefuses: what is wrong with a file or a value is said by the
// flag's name.
func TestAPIServerRefuses(t *testing.T) {
	dir, _ := certs(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	short := in("short.csv")
	if err := os.WriteFile(short, []byte("token,user\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := in("empty.pem")
	if err := os.WriteFile(empty, pem.EncodeToMemory(&pem.Block{Type: "NONSENSE"}), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"--client-ca-file=" + empty:                   "--client-ca-file",
		"--token-auth-file=" + short:                  "--token-auth-file",
		"--service-account-key-file=" + empty:         "--service-account-key-file",
		"--service-account-signing-key-file=" + empty: "--service-account-signing-key-file",
		"--service-cluster-ip-range=10.0.0.0":         "--service-cluster-ip-range",
		"--bind-address=nonsense":                     "nonsense",
		"--cert-dir=" + in("nowhere"):                 "nowhere",
	} {
		err := RunAPIServer(t.Context(), []string{flag, "--secure-port=0"}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error about %s", flag, err, want)
		}
	}
}
