package kubeconfig

import (
	"path/filepath"
	"testing"
)

// What Write wrote, Load reads.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	c := Config{Cluster: "c", Server: "https://127.0.0.1:6443", User: "u", CA: []byte("ca"), Cert: []byte("cert"), Key: []byte("key")}
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != c.Server || string(got.CAData) != "ca" || string(got.CertData) != "cert" || string(got.KeyData) != "key" {
		t.Errorf("loaded %+v", got)
	}
	if _, err := Load(path + ".missing"); err == nil {
		t.Error("a missing file loads")
	}
}
