package cli

import (
	"fmt"
	"os"
	"path/filepath"
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
			env := os.Environ()
			if os.Getenv("KUBECONFIG") == "" {
				config := cluster.AdminKubeconfig(c.dataDir)
				if _, err := os.Stat(config); err != nil {
					return fmt.Errorf("no cluster in %s: `setpoint up` starts one (or set KUBECONFIG)", c.dataDir)
				}
				env = append(env, "KUBECONFIG="+config)
			}
			return syscall.Exec(path, append([]string{"kubectl"}, args...), env)
		},
	}
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
