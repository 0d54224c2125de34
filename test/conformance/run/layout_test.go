package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// entries reads a tar archive: headers by name, and contents.
func entries(t *testing.T, archive []byte) (map[string]*tar.Header, map[string][]byte) {
	t.Helper()
	headers, contents := map[string]*tar.Header{}, map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		if headers[h.Name] != nil {
			t.Errorf("%s is there twice", h.Name)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		headers[h.Name], contents[h.Name] = h, content
	}
}

// TestLayout: two images that share a layer, each reachable from the index by
// its full name.
func TestLayout(t *testing.T) {
	base, err := layerOf(file{path: "/tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777}, file{path: "/sh", link: "busybox"}, file{path: "/nnp", mode: fs.ModeSetuid | 0o755, content: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	headers, _ := entries(t, base)
	if h := headers["tmp/"]; h.Mode != 0o1777 {
		t.Errorf("tmp has mode %o", h.Mode)
	}
	if h := headers["sh"]; h.Linkname != "busybox" || h.Typeflag != tar.TypeSymlink {
		t.Errorf("sh is %v", h)
	}
	if h := headers["nnp"]; h.Mode != 0o4755 {
		t.Errorf("nnp has mode %o", h.Mode)
	}
	var archive bytes.Buffer
	l, err := newLayout(&archive)
	if err != nil {
		t.Fatal(err)
	}
	for name, layers := range map[string][][]byte{"example.com/a:1": {base}, "example.com/b/c:2.0-1": {base, []byte("more")}} {
		if err := l.add(name, "amd64", runs{Cmd: []string{"sh"}}, layers...); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.add("example.com/a", "amd64", runs{}); err == nil {
		t.Error("a name without a tag is taken")
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	_, contents := entries(t, archive.Bytes())
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(contents["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	blob := func(d descriptor) []byte { return contents["blobs/sha256/"+d.Digest[len("sha256:"):]] }
	named := map[string]int{}
	for _, d := range index.Manifests {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		if err := json.Unmarshal(blob(d), &manifest); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(blob(manifest.Config), []byte(`"Cmd":["sh"]`)) || !bytes.Equal(blob(manifest.Layers[0]), base) {
			t.Errorf("%v: config %s", d.Annotations, blob(manifest.Config))
		}
		named[d.Annotations["io.containerd.image.name"]] = len(manifest.Layers)
	}
	if len(named) != 2 || named["example.com/a:1"] != 1 || named["example.com/b/c:2.0-1"] != 2 {
		t.Errorf("images: %v", named)
	}
}

// TestLayerOfTree keeps links and modes, and leaves owners behind.
func TestLayerOfTree(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "usr/bin/tool"), []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("usr/bin", filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	layer, err := layerOfTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	headers, contents := entries(t, layer)
	if h := headers["usr/bin/tool"]; h == nil || h.Mode != 0o755 || h.Uid != 0 || h.Uname != "" || string(contents[h.Name]) != "#!" {
		t.Errorf("tool: %+v", h)
	}
	if h := headers["bin"]; h == nil || h.Linkname != "usr/bin" {
		t.Errorf("bin: %+v", h)
	}
}
