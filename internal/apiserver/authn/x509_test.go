package authn

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-project/setpoint/internal/pki"
)

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func withCert(p *pki.Pair) *http.Request {
	return &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{p.Cert}}}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestClientCert(t *testing.T) {
	a := authority(t)
	c := NewClientCerts(a.Pool())
	for _, tc := range []struct {
		name string
		req  *http.Request
		want *User
		bad  bool
	}{
		{"none", &http.Request{}, nil, false},
		{"TLS without", &http.Request{TLS: &tls.ConnectionState{}}, nil, false},
		{"node", withCert(must(a.Node("n1"))(t)), &User{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}, false},
		{"no groups", withCert(must(a.Scheduler())(t)), &User{Name: "system:kube-scheduler", Groups: []string{"system:authenticated"}}, false},
		{"of another authority", withCert(must(authority(t).Admin())(t)), nil, true},
		{"for serving", withCert(must(a.KubeletServing("n1", nil))(t)), nil, true},
		{"no name", withCert(must(a.Leaf("x", pki.Profile{Organizations: []string{"system:masters"}, Client: true}))(t)), nil, true},
		{"claims to be authenticated twice", withCert(must(a.Leaf("y", pki.Profile{CommonName: "y", Organizations: []string{"system:authenticated"}, Client: true}))(t)),
			&User{Name: "y", Groups: []string{"system:authenticated"}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 2 { // the second time from memory
				got, err := c.Authenticate(tc.req)
				if (err != nil) != tc.bad {
					t.Fatalf("error %v, want one: %v", err, tc.bad)
				}
				if got != nil {
					sum := sha256.Sum256(tc.req.TLS.PeerCertificates[0].Raw)
					tc.want.Extra = map[string][]string{"authentication.kubernetes.io/credential-id": {"X509SHA256=" + hex.EncodeToString(sum[:])}}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A connection may outlive the certificate it began with.
func TestClientCertExpiresWhileConnected(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := must(pki.Open(dir))(t)
		c := NewClientCerts(a.Pool())
		req := withCert(must(a.Admin())(t))
		if u, err := c.Authenticate(req); err != nil || u == nil {
			t.Fatal(u, err)
		}
		time.Sleep(366 * 24 * time.Hour)
		if u, err := c.Authenticate(req); err == nil {
			t.Errorf("an expired certificate is still %v", u)
		}
	})
}

func TestClientCertMemoryIsBounded(t *testing.T) {
	a := authority(t)
	c := NewClientCerts(a.Pool())
	p := must(a.Admin())(t)
	for range maxSeen + 10 {
		same := *p.Cert
		if _, err := c.Authenticate(&http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{&same}}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.mu.seen); n > maxSeen {
		t.Errorf("remembers %d, want at most %d", n, maxSeen)
	}
}

func BenchmarkClientCertSeen(b *testing.B) {
	a, err := pki.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	p, err := a.Admin()
	if err != nil {
		b.Fatal(err)
	}
	c, req := NewClientCerts(a.Pool()), withCert(p)
	for b.Loop() {
		if _, err := c.Authenticate(req); err != nil {
			b.Fatal(err)
		}
	}
}
