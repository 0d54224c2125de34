package containerd

import (
	"io"
	"log"
	"net/http/httptest"
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
	if err := RedirectRegistry(i.options.DataDir, "registry.example:5000", server.URL); err != nil {
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

func TestRedirectRegistryRefusesNonsense(t *testing.T) {
	for _, test := range []struct{ host, endpoint string }{
		{"", "http://127.0.0.1"},
		{"..", "http://127.0.0.1"},
		{"a/b", "http://127.0.0.1"},
		{"a", "127.0.0.1:5000"},
		{"a", "ftp://127.0.0.1"},
		{"a", "http://"},
	} {
		if err := RedirectRegistry(t.TempDir(), test.host, test.endpoint); err == nil {
			t.Errorf("RedirectRegistry(%q, %q) succeeds", test.host, test.endpoint)
		}
	}
}
