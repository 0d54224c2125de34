package harness

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Registry is an image registry on loopback, without TLS.
type Registry struct {
	t    testing.TB
	Host string // 127.0.0.1:PORT
}

// StartRegistry serves until the test ends.
func StartRegistry(t testing.TB) *Registry {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return &Registry{t, l.Addr().String()}
}

// Image is what goes into an image: files by path, and what it runs.
type Image struct {
	Files      map[string][]byte // by absolute path, all executable
	Links      map[string]string
	Entrypoint []string
	Env        []string
	User       string
}

// Push builds an image and serves it as HOST/repo (with a tag); it returns the
// full name.
func (r *Registry) Push(repo string, img Image) string {
	r.t.Helper()
	full := r.Host + "/" + repo
	ref, err := name.ParseReference(full, name.Insecure)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := remote.Write(ref, img.build(r.t)); err != nil {
		r.t.Fatal(err)
	}
	return full
}

// Archive builds an image into a file as `docker save` would write it.
func Archive(t testing.TB, full string, img Image) string {
	t.Helper()
	ref, err := name.NewTag(full)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(path, ref, img.build(t)); err != nil {
		t.Fatal(err)
	}
	return path
}

func (img Image) build(t testing.TB) v1.Image {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"bin", "etc", "tmp", "proc", "sys", "dev", "root"} {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		must(t, w.WriteHeader(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: mode}))
	}
	for path, data := range img.Files {
		must(t, w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(path, "/"), Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data))}))
		_, err := w.Write(data)
		must(t, err)
	}
	for path, to := range img.Links {
		must(t, w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(path, "/"), Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}))
	}
	must(t, w.Close())
	layer, err := tarball.LayerFromReader(&buf)
	must(t, err)
	out, err := mutate.AppendLayers(empty.Image, layer)
	must(t, err)
	cfg, err := out.ConfigFile()
	must(t, err)
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", "amd64"
	cfg.Config = v1.Config{Entrypoint: img.Entrypoint, Env: append([]string{"PATH=/bin"}, img.Env...), User: img.User}
	out, err = mutate.ConfigFile(out, cfg)
	must(t, err)
	return out
}

// Busybox is an image with a shell and the usual tools, of Debian's static
// busybox.
func Busybox(t testing.TB) Image {
	t.Helper()
	var data []byte
	var err error
	for _, path := range []string{"/bin/busybox", "/usr/bin/busybox"} {
		if data, err = os.ReadFile(path); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("no busybox: %v (apt-get install busybox-static)", err)
	}
	list, err := exec.Command("busybox", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	img := Image{Files: map[string][]byte{"/bin/busybox": data, "/etc/passwd": []byte("root:x:0:0::/root:/bin/sh\nweb:x:1000:1000::/tmp:/bin/sh\n")}, Links: map[string]string{}, Entrypoint: []string{"/bin/sh", "-c", "sleep 1000000"}}
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" {
			img.Links["/bin/"+applet] = "busybox"
		}
	}
	return img
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Web is Busybox with the demo server as /bin/web: it answers on port 8080
// with its pod's name and version, and drains when it is told to end.
func Web(t testing.TB, version string) Image {
	t.Helper()
	img := Busybox(t)
	img.Files["/bin/web"] = goProgram(t, "./images/demo")
	img.Entrypoint = []string{"/bin/web"}
	img.Env = []string{"DEMO_VERSION=" + version}
	return img
}

// Tool is Busybox with the tests' own program as /bin/tool, which it serves
// with unless told otherwise.
func Tool(t testing.TB) Image {
	t.Helper()
	img := Busybox(t)
	img.Files["/bin/tool"] = goProgram(t, "./test/e2e/tool")
	img.Entrypoint = []string{"/bin/tool"}
	return img
}

// StorageDriver is Busybox with the tests' CSI driver as /bin/csidriver.
func StorageDriver(t testing.TB) Image {
	t.Helper()
	img := Busybox(t)
	img.Files["/bin/csidriver"] = goProgram(t, "./test/e2e/csidriver")
	img.Entrypoint = []string{"/bin/csidriver"}
	return img
}

var programs sync.Map // of built programs by package

// goProgram builds one of the repository's programs, static.
func goProgram(t testing.TB, pkg string) []byte {
	t.Helper()
	if data, ok := programs.Load(pkg); ok {
		return data.([]byte)
	}
	path := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, pkg)
	cmd.Dir, cmd.Env = Root(t), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	data, err := os.ReadFile(path)
	must(t, err)
	programs.Store(pkg, data)
	return data
}

// CSIDriver is Busybox with the CSI driver of the tests of sidecars as
// /bin/driver.
func CSIDriver(t testing.TB) Image {
	t.Helper()
	img := Busybox(t)
	img.Files["/bin/driver"] = goProgram(t, "./test/clients/csi/driver")
	return img
}
