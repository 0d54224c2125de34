package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// file is the part of a kubeconfig that Load understands.
type file struct {
	CurrentContext string `json:"current-context"`
	Clusters       []struct {
		Name    string
		Cluster struct {
			Server        string
			CAData        string `json:"certificate-authority-data"`
			CA            string `json:"certificate-authority"`
			TLSServerName string `json:"tls-server-name"`
		}
	}
	Users []struct {
		Name string
		User struct {
			CertData string `json:"client-certificate-data"`
			KeyData  string `json:"client-key-data"`
			Cert     string `json:"client-certificate"`
			Key      string `json:"client-key"`
			Token    string
		}
	}
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
}

// Load reads the current context of a kubeconfig: server, authority, and a
// client certificate or a token. Plugins that fetch credentials are for
// people's tools; Setpoint's own parts have certificates.
func Load(path string) (*rest.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f file
	if err := yaml.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, c := range f.Contexts {
		if c.Name != f.CurrentContext {
			continue
		}
		cfg := &rest.Config{}
		for _, cl := range f.Clusters {
			if cl.Name == c.Context.Cluster {
				cfg.Host, cfg.ServerName = cl.Cluster.Server, cl.Cluster.TLSServerName
				cfg.CAFile = cl.Cluster.CA
				if cfg.CAData, err = base64.StdEncoding.DecodeString(cl.Cluster.CAData); err != nil {
					return nil, fmt.Errorf("%s: certificate-authority-data of cluster %q: %w", path, cl.Name, err)
				}
			}
		}
		for _, u := range f.Users {
			if u.Name == c.Context.User {
				cfg.CertFile, cfg.KeyFile, cfg.BearerToken = u.User.Cert, u.User.Key, u.User.Token
				if cfg.CertData, err = base64.StdEncoding.DecodeString(u.User.CertData); err != nil {
					return nil, fmt.Errorf("%s: client-certificate-data of user %q: %w", path, u.Name, err)
				}
				if cfg.KeyData, err = base64.StdEncoding.DecodeString(u.User.KeyData); err != nil {
					return nil, fmt.Errorf("%s: client-key-data of user %q: %w", path, u.Name, err)
				}
			}
		}
		if cfg.Host == "" {
			return nil, fmt.Errorf("%s: context %q: no cluster %q with a server", path, c.Name, c.Context.Cluster)
		}
		return cfg, nil
	}
	return nil, fmt.Errorf("%s: no context %q", path, f.CurrentContext)
}
