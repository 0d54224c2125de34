package cluster

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/kubeconfig"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// serve runs an API server alone, in memory, until the test ends. It returns a
// way to send it a request as one of those for whom it wrote a kubeconfig.
func serve(t *testing.T) (as func(who, method, path, body string) (code int, answer string)) {
	t.Helper()
	return serveWith(t, Options{})
}

// serveWith does as serve, with options. A patch is a merge patch.
func serveWith(t *testing.T, o Options) (as func(who, method, path, body string) (code int, answer string)) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan Info, 1), make(chan error, 1)
	go func() {
		o.DataDir, o.InMemory, o.Listen, o.Ready = dir, true, "127.0.0.1:0", func(i Info) { ready <- i }
		ended <- RunServer(ctx, o)
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(who, method, path, body string) (int, string) {
		t.Helper()
		cfg, err := kubeconfig.Load(PartKubeconfig(dir, who))
		if err != nil {
			t.Fatal(err)
		}
		c, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodPatch {
			req.Header.Set("Content-Type", "application/merge-patch+json")
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(answer)
	}
}

// TestPathAccess: who may do what with the paths that are no resources, over
// TLS and with the certificates that the server wrote.
func TestPathAccess(t *testing.T) {
	as := serve(t)
	const scheduler, controllers = GapsPath + "/" + pki.SchedulerUser + "/a", GapsPath + "/" + pki.ControllerManagerUser + "/a"
	body := `{"part":"scheduler","gaps":[{"loop":"scheduler","key":"default/web","state":"waiting","reason":"no node"}]}`
	for _, c := range []struct {
		who, method, path string
		want              int
	}{
		{"admin", "GET", ProfilesPath, 200},
		{"scheduler", "GET", ProfilesPath, 403},
		{"controllers", "GET", ProfilesPath, 403},
		{"admin", "GET", ProfilesPath + "goroutine", 200},
		{"scheduler", "GET", ProfilesPath + "goroutine", 403},
		{"scheduler", "GET", ProfilesPath + "profile?seconds=1", 403},
		{"scheduler", "GET", RangesPath, 200},
		{"scheduler", "GET", GapsPath, 403},
		{"scheduler", "PUT", scheduler, 200},
		{"scheduler", "PUT", controllers, 403},
		{"controllers", "PUT", controllers, 200},
		{"controllers", "DELETE", scheduler, 403},
		{"admin", "PUT", scheduler, 200},
	} {
		if code, answer := as(c.who, c.method, c.path, body); code != c.want {
			t.Errorf("%s: %s %s: status %d, want %d: %s", c.who, c.method, c.path, code, c.want, answer)
		}
	}
	code, answer := as("admin", "GET", GapsPath, "")
	if code != 200 || strings.Count(answer, "no node") != 1 {
		t.Errorf("what two told alike: status %d, %s", code, answer)
	}
}

// TestReporters: whoever is a part of the cluster reports for itself and for
// nobody else.
func TestReporters(t *testing.T) {
	node := &authn.User{Name: pki.NodeUserPrefix + "one", Groups: []string{pki.NodesGroup}}
	for _, c := range []struct {
		user       *authn.User
		verb, path string
		want       bool
	}{
		{node, "put", GapsPath + "/system:node:one/a", true},
		{node, "delete", GapsPath + "/system:node:one/a", true},
		{node, "get", GapsPath + "/system:node:one/a", false},
		{node, "put", GapsPath + "/system:node:two/a", false},
		{node, "put", GapsPath + "/system:node:one", false},
		{node, "put", GapsPath, false},
		{&authn.User{Name: node.Name}, "put", GapsPath + "/system:node:one/a", false},
		{&authn.User{Name: pki.SchedulerUser}, "put", GapsPath + "/" + pki.SchedulerUser + "/a", true},
		{&authn.User{Name: pki.SchedulerUser}, "put", GapsPath + "/" + pki.ControllerManagerUser + "/a", false},
		{&authn.User{Name: "alice"}, "put", GapsPath + "/alice/a", false},
	} {
		got, _ := reporters{}.Authorize(t.Context(), &authz.Attributes{User: c.user, Verb: c.verb, Path: c.path})
		if got != c.want {
			t.Errorf("%s: %s %s: allowed %v, want %v", c.user.Name, c.verb, c.path, got, c.want)
		}
	}
}
