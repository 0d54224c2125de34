package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// TestRegistry: an image comes out of an archive as it went in, by tag and by
// digest; what is not in it is not found.
func TestRegistry(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "images.tar")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLayout(f)
	if err != nil {
		t.Fatal(err)
	}
	for name, layer := range map[string]string{registryHost + "/a/one:1": "layer one", registryHost + "/two:2": "layer two", "elsewhere.io/three:3": "layer three"} {
		if err := l.add(name, "amd64", runs{}, []byte(layer)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	r, err := openRegistry(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	s := httptest.NewServer(r)
	defer s.Close()
	get := func(method, path string, want int) ([]byte, http.Header) {
		t.Helper()
		q, err := http.NewRequest(method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		content, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s %s: %s, want %d (%v)", method, path, resp.Status, want, err)
		}
		return content, resp.Header
	}
	get("GET", "/v2/", 200)
	for name, layer := range map[string]string{"a/one/manifests/1": "layer one", "two/manifests/2": "layer two"} {
		content, header := get("GET", "/v2/"+name, 200)
		sum := sha256.Sum256(content)
		if d := header.Get("Docker-Content-Digest"); d != "sha256:"+hex.EncodeToString(sum[:]) || header.Get("Content-Type") != mediaType+"manifest.v1+json" {
			t.Errorf("%s: digest %s, type %s", name, d, header.Get("Content-Type"))
		}
		var manifest struct{ Layers []descriptor }
		if err := json.Unmarshal(content, &manifest); err != nil || len(manifest.Layers) != 1 {
			t.Fatalf("%s: %s (%v)", name, content, err)
		}
		get("HEAD", "/v2/x/manifests/"+header.Get("Docker-Content-Digest"), 200)
		if got, _ := get("GET", "/v2/x/blobs/"+manifest.Layers[0].Digest, 200); string(got) != layer {
			t.Errorf("%s: the layer is %q", name, got)
		}
	}
	for _, path := range []string{"/", "/v2/three/manifests/3", "/v2/two/manifests/1", "/v2/two/blobs/sha256:00"} {
		get("GET", path, 404)
	}
	get("POST", "/v2/two/manifests/2", 404)
}
