package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// snapshot is the content of every file in dir.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

func issueAll(a *Authority) error {
	for _, f := range []func() (*Pair, error){
		a.Admin, a.ControllerManager, a.Scheduler, a.Proxy, a.KubeletClient,
		func() (*Pair, error) { return a.Node("n1") },
		func() (*Pair, error) { return a.KubeletServing("n1", []net.IP{net.IPv4(10, 0, 0, 1)}) },
		func() (*Pair, error) {
			return a.APIServer([]net.IP{net.IPv4(10, 96, 0, 1), net.ParseIP("fd00:96::1")}, "cluster.local", []string{"box"}, []net.IP{net.IPv4(10, 0, 0, 1)})
		},
	} {
		if _, err := f(); err != nil {
			return err
		}
	}
	_, err := a.ServiceAccountKey()
	return err
}

func TestSecondStartWritesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := issueAll(open(t, dir)); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	if err := issueAll(open(t, dir)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("files changed (-first +second):\n%s", diff)
	}
	for name := range before {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name != "ca.crt" && st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", name, st.Mode().Perm())
		}
	}
}

func TestManyStartAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	var wg sync.WaitGroup
	hashes := make([]string, 8)
	for i := range hashes {
		wg.Go(func() {
			a, err := Open(dir)
			if err != nil {
				t.Error(err)
				return
			}
			hashes[i] = a.Hash()
			if err := issueAll(a); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, h := range hashes {
		if h != hashes[0] {
			t.Errorf("two authorities: %v", hashes)
		}
	}
}

func TestIdentities(t *testing.T) {
	a := open(t, t.TempDir())
	for _, tc := range []struct {
		issue  func() (*Pair, error)
		user   string
		groups []string
	}{
		{a.Admin, "kubernetes-admin", []string{"system:masters"}},
		{a.ControllerManager, "system:kube-controller-manager", nil},
		{a.Scheduler, "system:kube-scheduler", nil},
		{a.KubeletClient, "kube-apiserver-kubelet-client", []string{"system:masters"}},
		{func() (*Pair, error) { return a.Node("n1") }, "system:node:n1", []string{"system:nodes"}},
	} {
		p, err := tc.issue()
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Cert.Subject.CommonName; got != tc.user {
			t.Errorf("user %q, want %q", got, tc.user)
		}
		if diff := cmp.Diff(tc.groups, p.Cert.Subject.Organization); diff != "" {
			t.Errorf("%s: groups (-want +got):\n%s", tc.user, diff)
		}
		_, err = p.Cert.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			t.Errorf("%s: %v", tc.user, err)
		}
		if _, err := p.Cert.Verify(x509.VerifyOptions{Roots: a.Pool()}); err == nil {
			t.Errorf("%s: a client certificate serves as well", tc.user)
		}
	}
}

func TestServingCertificateFollowsNames(t *testing.T) {
	a := open(t, t.TempDir())
	service := net.IPv4(10, 96, 0, 1)
	one, err := a.APIServer([]net.IP{service}, "cluster.local", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "10.96.0.1", "kubernetes.default.svc.cluster.local"} {
		if err := one.Cert.VerifyHostname(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	two, err := a.APIServer([]net.IP{service}, "cluster.local", []string{"box.example"}, []net.IP{net.IPv4(10, 9, 8, 7)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"box.example", "10.9.8.7", "localhost"} {
		if err := two.Cert.VerifyHostname(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	three, err := a.APIServer([]net.IP{service}, "cluster.local", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !three.Cert.Equal(two.Cert) {
		t.Error("a certificate with names to spare was issued anew")
	}
}

func TestRenewalNearTheEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, dir)
		r, err := NewRotating(a.Admin)
		if err != nil {
			t.Fatal(err)
		}
		first := r.Pair().Cert
		time.Sleep(leafLife - renewBefore - time.Hour)
		if !r.Pair().Cert.Equal(first) {
			t.Error("renewed before its time")
		}
		time.Sleep(2 * time.Hour)
		second, err := r.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if second.Leaf.Equal(first) {
			t.Error("not renewed")
		}
		if !second.Leaf.NotAfter.After(first.NotAfter) {
			t.Error("the new one ends no later")
		}
		again, err := open(t, dir).Admin()
		if err != nil {
			t.Fatal(err)
		}
		if !again.Cert.Equal(second.Leaf) {
			t.Error("the renewed certificate was not stored")
		}
	})
}

func TestDamage(t *testing.T) {
	for name, damage := range map[string][]byte{"empty": {}, "torn": []byte("-----BEGIN CERTIFICATE-----\nMII")} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a := open(t, dir)
			if _, err := a.Admin(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "admin.pem"), damage, 0o600); err != nil {
				t.Fatal(err)
			}
			if p, err := a.Admin(); err != nil || p.Cert == nil {
				t.Errorf("a damaged leaf was not made again: %v", err)
			}
			if err := os.WriteFile(filepath.Join(dir, "ca.pem"), damage, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "ca.pem") {
				t.Errorf("a damaged authority: got %v, want an error that names the file", err)
			}
			got, _ := os.ReadFile(filepath.Join(dir, "ca.pem"))
			if string(got) != string(damage) {
				t.Error("a damaged authority was replaced")
			}
		})
	}
}

func TestReadableKeyIsReplaced(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir)
	one, err := a.Admin()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "admin.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	two, err := a.Admin()
	if err != nil {
		t.Fatal(err)
	}
	if one.Cert.Equal(two.Cert) {
		t.Error("a key that others could read is still in use")
	}
}

func TestServerTLSHandshake(t *testing.T) {
	a := open(t, t.TempDir())
	serving, err := NewRotating(func() (*Pair, error) { return a.APIServer(nil, "cluster.local", nil, nil) })
	if err != nil {
		t.Fatal(err)
	}
	admin, err := NewRotating(a.Admin)
	if err != nil {
		t.Fatal(err)
	}
	c, s := net.Pipe()
	defer c.Close()
	defer s.Close()
	server := tls.Server(s, a.ServerTLS(serving))
	clientConf := a.ClientTLS(admin)
	clientConf.ServerName = "localhost"
	client := tls.Client(c, clientConf)
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	peers := server.ConnectionState().PeerCertificates
	if len(peers) == 0 || peers[0].Subject.CommonName != "kubernetes-admin" {
		t.Errorf("the server saw %v", peers)
	}
}

func BenchmarkFirstStart(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		a, err := Open(dir)
		if err == nil {
			err = issueAll(a)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNextStart(b *testing.B) {
	dir := b.TempDir()
	a, err := Open(dir)
	if err == nil {
		err = issueAll(a)
	}
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		a, err := Open(dir)
		if err == nil {
			err = issueAll(a)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
