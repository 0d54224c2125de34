package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
)

func buildTest(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"pause", "demo"} {
		if err := os.WriteFile(path(name), []byte("program "+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := build("amd64", path("pause"), path("demo"), path("images.tar")); err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(path("images.tar"))
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// An independent reader of image layouts finds whole images in it.
func TestLayoutIsValid(t *testing.T) {
	dir := t.TempDir()
	extract(t, buildTest(t), dir)
	path, err := ocilayout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	type found struct {
		Name, User, File string
		Entrypoint, Env  []string
	}
	var got []found
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.OS != "linux" || config.Architecture != "amd64" {
			t.Errorf("%s is for %s/%s", m.Digest, config.OS, config.Architecture)
		}
		layers, err := image.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%s has %d layers, %v; want 1", m.Digest, len(layers), err)
		}
		// Not compressed, so both of its digests are one.
		digest, err := layers[0].Digest()
		if err != nil || digest != config.RootFS.DiffIDs[0] {
			t.Errorf("%s: layer %v, %v; its configuration says %v", m.Digest, digest, err, config.RootFS.DiffIDs)
		}
		r, err := layers[0].Compressed()
		if err != nil {
			t.Fatal(err)
		}
		content := fileIn(t, r, config.Config.Entrypoint[0])
		r.Close()
		got = append(got, found{
			Name: m.Annotations["io.containerd.image.name"], User: config.Config.User,
			Entrypoint: config.Config.Entrypoint, Env: config.Config.Env, File: content,
		})
	}
	want := []found{
		{Name: "setpoint.local/pause:1", User: "65535:65535", Entrypoint: []string{"/pause"}, File: "program pause"},
		{Name: "setpoint.local/demo:1", User: "65532:65532", Entrypoint: []string{"/demo"}, Env: []string{"PATH=/", "DEMO_VERSION=1"}, File: "program demo"},
		{Name: "setpoint.local/demo:2", User: "65532:65532", Entrypoint: []string{"/demo"}, Env: []string{"PATH=/", "DEMO_VERSION=2"}, File: "program demo"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

func TestBuildIsReproducible(t *testing.T) {
	if !bytes.Equal(buildTest(t), buildTest(t)) {
		t.Error("two builds of the same programs differ")
	}
}

func TestBuildNeedsPrograms(t *testing.T) {
	out := filepath.Join(t.TempDir(), "images.tar")
	if err := build("amd64", "/absent", "/absent", out); err == nil {
		t.Error("built from programs that are not there")
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a failed build left an archive")
	}
}

func TestNameNeedsTag(t *testing.T) {
	if err := newLayout("amd64").add("example.com:80/app", "/app", nil, runConfig{}); err == nil {
		t.Error("an image without a tag is added")
	}
}

func extract(t *testing.T, archive []byte, dir string) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func fileIn(t *testing.T, archive io.Reader, path string) string {
	t.Helper()
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if "/"+h.Name != path {
			continue
		}
		if h.Mode != 0o755 {
			t.Errorf("%s has mode %o, want 755", path, h.Mode)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
}
