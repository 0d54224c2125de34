package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/setpoint-project/setpoint/internal/cluster"
	"github.com/setpoint-project/setpoint/internal/containerd"
)

func newKubectl(c *common) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [ARGS...]",
		Short: "Run kubectl against the cluster",
		Long: `Run upstream's kubectl, which setpoint carries, against the cluster of the data
folder. KUBECONFIG or --kubeconfig, when given, win.`,
		Example:            "  setpoint kubectl get pods -A",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			cache, err := kubectlCache(c.dataDir)
			if err != nil {
				return err
			}
			path, err := containerd.UnpackKubectl(cache)
			if err != nil {
				return err
			}
			env, err := kubectlEnv(c.dataDir, os.Environ(), args)
			if err != nil {
				return err
			}
			return syscall.Exec(path, append([]string{"kubectl"}, args...), env)
		},
	}
}

// kubectlEnv lets KUBECONFIG name the cluster of the data folder, unless env
// or args name another.
func kubectlEnv(dataDir string, env, args []string) ([]string, error) {
	env = slices.Clone(env)
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], "KUBECONFIG="); ok {
			if value != "" {
				return env, nil
			}
			env = slices.Delete(env, i, i+1) // the first of two would win
		}
	}
	config := cluster.AdminKubeconfig(dataDir)
	if _, err := os.Stat(config); err != nil {
		if !needsCluster(args) {
			return env, nil
		}
		return nil, fmt.Errorf("no cluster in %s: `setpoint up` starts one (or set KUBECONFIG)", dataDir)
	}
	return append(env, "KUBECONFIG="+config), nil
}

// needsCluster tells whether kubectl, called like this, would look for the
// cluster of the data folder.
func needsCluster(args []string) bool {
	for _, a := range args {
		if a == "--" {
			break // what follows is the command of a container
		}
		name, _, _ := strings.Cut(a, "=")
		switch name {
		case "--kubeconfig", "--server", "-s", "--help", "-h", "--client":
			return false
		}
	}
	return len(args) > 0 && !slices.Contains([]string{"help", "completion", "kustomize", "options", "config", "plugin"}, args[0])
}

// kubectlCache is the data folder where it may be written, else the user's own
// cache.
func kubectlCache(dataDir string) (string, error) {
	if os.MkdirAll(dataDir, 0o700) == nil {
		return dataDir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "setpoint"), nil
}
