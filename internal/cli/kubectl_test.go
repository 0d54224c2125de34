package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/cluster"
)

// TestKubectlEnv: the cluster of the data folder is the default, what names
// another wins, and what needs none goes without.
func TestKubectlEnv(t *testing.T) {
	empty, full := t.TempDir(), t.TempDir()
	config := cluster.AdminKubeconfig(full)
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const refused = "refused"
	for _, c := range []struct{ dir, env, args, want string }{
		{full, "", "get pods", config},
		{full, "KUBECONFIG=", "get pods", config},
		{full, "KUBECONFIG=/mine", "get pods", "/mine"},
		{empty, "", "get pods", refused},
		{empty, "KUBECONFIG=", "get pods", refused},
		{empty, "KUBECONFIG=/mine", "get pods", "/mine"},
		{empty, "", "get pods --kubeconfig /mine", ""},
		{empty, "", "--kubeconfig=/mine get pods", ""},
		{empty, "", "-s https://127.0.0.1 get pods", ""},
		{empty, "", "exec p -- cat --kubeconfig", refused},
		{empty, "", "version --client", ""},
		{empty, "", "version", refused},
		{empty, "", "create --help", ""},
		{empty, "", "completion bash", ""},
		{empty, "", "", ""},
	} {
		env, err := kubectlEnv(c.dir, []string{"PATH=/bin", c.env}, strings.Fields(c.args))
		var values []string
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, "KUBECONFIG="); ok {
				values = append(values, v)
			}
		}
		got := strings.Join(values, " and ")
		if err != nil {
			got = refused
		} else if !slices.Contains(env, "PATH=/bin") {
			t.Errorf("%q kubectl %s: PATH is gone", c.env, c.args)
		}
		if got != c.want {
			t.Errorf("%q kubectl %s: got %q, want %q", c.env, c.args, got, c.want)
		}
	}
}
