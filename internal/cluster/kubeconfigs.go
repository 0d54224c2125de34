package cluster

import (
	"fmt"
	"path/filepath"

	"github.com/setpoint-project/setpoint/internal/kubeconfig"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// writeKubeconfigs writes how each part reaches the API server, and the
// administrator's.
func (c *controlPlane) writeKubeconfigs() (Info, error) {
	info := Info{URL: "https://" + reachable(c.listeners[0]).String(), Kubeconfig: AdminKubeconfig(c.opts.DataDir)}
	for name, identity := range map[string]func() (*pki.Pair, error){
		"admin": c.authority.Admin, "controllers": c.authority.ControllerManager, "scheduler": c.authority.Scheduler,
	} {
		pair, err := identity()
		if err != nil {
			return info, err
		}
		config := kubeconfig.Config{Cluster: "setpoint", Server: info.URL, User: name, CA: c.servingCA(), Cert: pair.CertPEM, Key: pair.KeyPEM}
		if err := config.Write(PartKubeconfig(c.opts.DataDir, name)); err != nil {
			return info, err
		}
		if name == "admin" && c.opts.Kubeconfig != "" {
			if err := config.Write(c.opts.Kubeconfig); err != nil {
				return info, fmt.Errorf("--kubeconfig: %w", err)
			}
		}
	}
	return info, nil
}

// PartKubeconfig is where a data folder keeps the kubeconfig of a part:
// "controllers", "scheduler" or "admin".
func PartKubeconfig(dataDir, part string) string {
	return filepath.Join(dataDir, "kubeconfigs", part+".kubeconfig")
}

// AdminKubeconfig is where a data folder keeps the administrator's kubeconfig.
func AdminKubeconfig(dataDir string) string { return PartKubeconfig(dataDir, "admin") }
