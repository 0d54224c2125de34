// Package kubeconfig writes the file by which kubectl and every other client
// finds a cluster and proves who it is. It writes the few lines itself:
// client-go's loader would cost every start its initialisation.
//
// Everything is embedded, so the file can be copied to another machine. Write
// replaces the file in one step, leaves it alone when it is right already, and
// never merges: a person's own ~/.kube/config is not ours to change.
package kubeconfig

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/setpoint-project/setpoint/internal/pki"
)

// Config is one cluster, one user and the context that joins them.
type Config struct {
	Cluster   string // name of the cluster and, with the user, of the context
	Server    string // https://HOST:PORT
	User      string
	Namespace string // of the context; "" is default
	CA        []byte // PEM
	Cert, Key []byte // PEM; or
	Token     string // a bearer token
}

// Encode returns the file's content.
func (c Config) Encode() ([]byte, error) {
	if c.Cluster == "" || c.Server == "" || c.User == "" {
		return nil, fmt.Errorf("kubeconfig: cluster %q, server %q and user %q must all be named", c.Cluster, c.Server, c.User)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[4]s
`, str(c.Cluster), str(c.Server), base64.StdEncoding.EncodeToString(c.CA), str(c.User))
	if c.Namespace != "" {
		fmt.Fprintf(&b, "    namespace: %s\n", str(c.Namespace))
	}
	fmt.Fprintf(&b, "current-context: %s\npreferences: {}\nusers:\n- name: %s\n  user:\n", str(c.Cluster), str(c.User))
	if c.Token != "" {
		fmt.Fprintf(&b, "    token: %s\n", str(c.Token))
	} else {
		fmt.Fprintf(&b, "    client-certificate-data: %s\n    client-key-data: %s\n",
			base64.StdEncoding.EncodeToString(c.Cert), base64.StdEncoding.EncodeToString(c.Key))
	}
	return b.Bytes(), nil
}

// str quotes s: a JSON string is a YAML string, whatever it holds.
func str(s string) string {
	b, _ := json.Marshal(s) // never fails for a string
	return string(b)
}

// Write makes path hold exactly this configuration, readable by its owner only.
func (c Config) Write(path string) error {
	data, err := c.Encode()
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		if st, err := os.Stat(path); err == nil && st.Mode().Perm()&0o077 == 0 {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if err := pki.WriteFile(path, data, 0o600, false); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}
