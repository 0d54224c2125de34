package kubeconfig

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

func example() Config {
	return Config{
		Cluster: "set: point", Server: "https://127.0.0.1:6443", User: "admin",
		Namespace: "web", CA: []byte("ca\n"), Cert: []byte("cert\n"), Key: []byte("key\n"),
	}
}

// What client-go's loader reads is what we wrote.
func TestClientGoReadsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "config")
	c := example()
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := got.Contexts[got.CurrentContext]
	if ctx == nil {
		t.Fatalf("no context %q", got.CurrentContext)
	}
	read := Config{
		Cluster: ctx.Cluster, User: ctx.AuthInfo, Namespace: ctx.Namespace,
		Server: got.Clusters[ctx.Cluster].Server,
		CA:     got.Clusters[ctx.Cluster].CertificateAuthorityData,
		Cert:   got.AuthInfos[ctx.AuthInfo].ClientCertificateData,
		Key:    got.AuthInfos[ctx.AuthInfo].ClientKeyData,
	}
	if diff := cmp.Diff(c, read); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	c.Token = "abc.def"
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err = clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if u := got.AuthInfos["admin"]; u.Token != "abc.def" || u.ClientKeyData != nil {
		t.Errorf("with a token: %+v", u)
	}
}

func TestWriteIsIdempotentAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := example().Write(path); err != nil {
		t.Fatal(err)
	}
	one, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if one.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", one.Mode().Perm())
	}
	if err := example().Write(path); err != nil {
		t.Fatal(err)
	}
	two, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(one, two) {
		t.Error("an unchanged file was written again")
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := example().Write(path); err != nil {
		t.Fatal(err)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v after a second write, want 0600", st.Mode().Perm())
	}
}

func TestIncomplete(t *testing.T) {
	if err := (Config{Server: "https://x"}).Write(filepath.Join(t.TempDir(), "c")); err == nil {
		t.Error("a configuration without names was written")
	}
}
