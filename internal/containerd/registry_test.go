package containerd

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestPullFromRegistryOnLoopback(t *testing.T) {
	i := newInstance(t, "pull")
	i.run()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	ref, err := name.ParseReference(address + "/team/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, testImage(t, "pulled", runtime.GOARCH)); err != nil {
		t.Fatal(err)
	}

	if err := i.pull(ref.String()); err != nil {
		t.Errorf("pull by address: %v", err)
	}

	const redirected = "registry.example:5000/team/app:1"
	if err := i.pull(redirected); err == nil {
		t.Error("a registry that does not exist serves images")
	}
	// As an administrator leads it elsewhere: containerd reads the file at each
	// pull. See https://github.com/containerd/containerd/blob/main/docs/hosts.md
	dir := filepath.Join(layout{data: i.options.DataDir}.registries(), "registry.example:5000")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	hosts := "server = \"" + server.URL + "\"\n"
	if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hosts), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := i.pull(redirected); err != nil {
		t.Errorf("pull by redirection: %v", err)
	}
	i.wantImage(t, redirected, true)
}

func (i *instance) pull(image string) error {
	_, err := i.images.PullImage(i.context(), &cri.PullImageRequest{Image: &cri.ImageSpec{Image: image}})
	return err
}
