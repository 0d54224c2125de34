package containerd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"

	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestImages(t *testing.T) {
	i := newInstance(t, "img")
	i.run()
	socket := Socket(i.options.Instance)

	t.Run("carried images are there and pinned", func(t *testing.T) {
		images, err := ListImages(i.context(), socket)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]string
		for _, image := range images {
			got = append(got, image.Tags)
			if !image.Pinned {
				t.Errorf("%v is not pinned", image.Tags)
			}
			if image.Size == 0 || image.ID == "" {
				t.Errorf("%+v lacks a size or an ID", image)
			}
		}
		if diff := cmp.Diff([][]string{{demoImage}, {demoImage2}, {pauseImage}}, got); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
	})

	for _, test := range []struct {
		name    string
		archive func(t *testing.T) io.Reader
		want    []string
	}{
		{"docker save", func(t *testing.T) io.Reader {
			return bytes.NewReader(dockerArchive(t, testImage(t, "a", runtime.GOARCH), "example.com/a:1", "example.com/a:latest"))
		}, []string{"example.com/a:1", "example.com/a:latest"}},
		{"docker save of a short name", func(t *testing.T) io.Reader {
			return bytes.NewReader(dockerArchive(t, testImage(t, "b", runtime.GOARCH), "b:7"))
		}, []string{"docker.io/library/b:7"}},
		{"gzip", func(t *testing.T) io.Reader {
			return gzipped(t, dockerArchive(t, testImage(t, "c", runtime.GOARCH), "example.com/c:1"))
		}, []string{"example.com/c:1"}},
		{"zstd, read a byte at a time", func(t *testing.T) io.Reader {
			e, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			return iotest.OneByteReader(bytes.NewReader(e.EncodeAll(dockerArchive(t, testImage(t, "d", runtime.GOARCH), "example.com/d:1"), nil)))
		}, []string{"example.com/d:1"}},
		{"OCI layout, named in full", func(t *testing.T) io.Reader {
			return bytes.NewReader(ociArchive(t, testImage(t, "e", runtime.GOARCH), "example.com/e:1"))
		}, []string{"example.com/e:1"}},
		{"OCI layout, named by tag", func(t *testing.T) io.Reader {
			return gzipped(t, ociArchive(t, testImage(t, "f", runtime.GOARCH), "9"))
		}, []string{"setpoint.local/imported:9"}},
		{"larger than every buffer", func(t *testing.T) io.Reader {
			return bytes.NewReader(dockerArchive(t, testImage(t, noise(5<<20), runtime.GOARCH), "example.com/large:1"))
		}, []string{"example.com/large:1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ImportImage(i.context(), socket, test.archive(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("imported (-want +got):\n%s", diff)
			}
			for _, name := range test.want {
				i.wantImage(t, name, true)
			}
		})
	}

	broken := errors.New("the disk is on fire")
	for _, test := range []struct {
		name    string
		archive io.Reader
		want    string
	}{
		{"empty", strings.NewReader(""), "empty"},
		{"not an archive", strings.NewReader(strings.Repeat("no archive", 100)), "import image"},
		{"a tar of something else", bytes.NewReader(tarOf(t, "hello.txt", "hello")), "unrecognized image format"},
		{"cut short", bytes.NewReader(dockerArchive(t, testImage(t, "h", runtime.GOARCH), "example.com/h:1")[:2000]), "import image"},
		{"that cannot be read", io.MultiReader(bytes.NewReader(dockerArchive(t, testImage(t, "h", runtime.GOARCH), "example.com/h:1")[:2000]), iotest.ErrReader(broken)), broken.Error()},
		{"without a name", bytes.NewReader(ociArchive(t, testImage(t, "h", runtime.GOARCH), "")), "no names"},
		{"for another machine", bytes.NewReader(dockerArchive(t, testImage(t, "h", "s390x"), "example.com/h:1")), "import image for linux/"},
	} {
		t.Run("refused: "+test.name, func(t *testing.T) {
			names, err := ImportImage(i.context(), socket, test.archive)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("imported %q, error %v; want an error with %q", names, err, test.want)
			}
			i.wantImage(t, "example.com/h:1", false)
		})
	}

	t.Run("given up while the reader is stuck", func(t *testing.T) {
		r, w := io.Pipe()
		defer w.Close()
		ctx, cancel := context.WithCancel(i.context())
		go func() {
			// Too little for an archive; then nothing comes any more.
			_, _ = w.Write(make([]byte, 512))
			cancel()
		}()
		if _, err := ImportImage(ctx, socket, r); !errors.Is(err, context.Canceled) {
			t.Errorf("import: %v, want %v", err, context.Canceled)
		}
	})

	t.Run("remove", func(t *testing.T) {
		if err := RemoveImage(i.context(), socket, "example.com/a:1"); err != nil {
			t.Fatal(err)
		}
		i.wantImage(t, "example.com/a:1", false)
		i.wantImage(t, "example.com/a:latest", true)
		if err := RemoveImage(i.context(), socket, "example.com/a"); err != nil {
			t.Fatal(err)
		}
		if err := RemoveImage(i.context(), socket, "b:7"); err != nil {
			t.Fatal(err)
		}
		images, err := ListImages(i.context(), socket)
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range images {
			if n := image.name(); strings.Contains(n, "/a:") || strings.Contains(n, "/b:") {
				t.Errorf("%+v is still there", image)
			}
		}
		err = RemoveImage(i.context(), socket, "example.com/a")
		if !errors.Is(err, errImageNotFound) {
			t.Errorf("removing it again: %v, want %v", err, errImageNotFound)
		}
	})
}

func (i *instance) wantImage(t *testing.T, name string, want bool) {
	t.Helper()
	answer, err := i.images.ImageStatus(i.context(), &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Image != nil; got != want {
		t.Errorf("image %s is there: %v, want %v", name, got, want)
	}
}

// The daemon's own idea of short names must be ours.
func TestQualified(t *testing.T) {
	for given, want := range map[string]string{
		"nginx":                      "docker.io/library/nginx:latest",
		"nginx:1":                    "docker.io/library/nginx:1",
		"user/app":                   "docker.io/user/app:latest",
		"localhost/app":              "localhost/app:latest",
		"localhost:5000/app:2":       "localhost:5000/app:2",
		"example.com/a/b":            "example.com/a/b:latest",
		"example.com:8080/a/b":       "example.com:8080/a/b:latest",
		"example.com/a@sha256:00":    "example.com/a@sha256:00",
		"setpoint.local/demo:1":      "setpoint.local/demo:1",
		"docker.io/library/redis:7a": "docker.io/library/redis:7a",
	} {
		if got := qualified(given); got != want {
			t.Errorf("qualified(%q) = %q, want %q", given, got, want)
		}
		ref, err := name.ParseReference(given, name.WeakValidation)
		if err != nil {
			continue
		}
		other := strings.Replace(ref.Name(), "index.docker.io/", "docker.io/", 1)
		if other != want {
			t.Errorf("an independent parser makes %q of %q, want %q", other, given, want)
		}
	}
}

// testImage is an image with one file of the given content.
func testImage(t *testing.T, content, arch string) v1.Image {
	t.Helper()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(tarOf(t, "content", content))), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = "linux", arch
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func dockerArchive(t *testing.T, image v1.Image, names ...string) []byte {
	t.Helper()
	tags := make(map[name.Tag]v1.Image)
	for _, n := range names {
		tag, err := name.NewTag(n)
		if err != nil {
			t.Fatal(err)
		}
		tags[tag] = image
	}
	var b bytes.Buffer
	if err := tarball.MultiWrite(tags, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func ociArchive(t *testing.T, image v1.Image, ref string) []byte {
	t.Helper()
	dir := t.TempDir()
	path, err := ocilayout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	var options []ocilayout.Option
	if ref != "" {
		options = append(options, ocilayout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref}))
	}
	if err := path.AppendImage(image, options...); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarOf(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t *testing.T, content []byte) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// What the packed archive says of itself is what importCarried goes by.
func TestCarriedLayout(t *testing.T) {
	paths, err := Unpack(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(paths.Images)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	images, err := layoutImages(tar.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n, digest := range images {
		names = append(names, n)
		if !strings.HasPrefix(digest, "sha256:") {
			t.Errorf("%s has the digest %q", n, digest)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{demoImage, demoImage2, pauseImage}, names); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if _, err := layoutImages(tar.NewReader(bytes.NewReader(tarOf(t, "a", "b")))); err == nil {
		t.Error("an archive without index.json is accepted")
	}
}

// noise is text that does not compress.
func noise(size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
}
