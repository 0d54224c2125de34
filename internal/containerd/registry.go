package containerd

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// RegistriesDir is the folder in which the daemon of the cluster at dataDir
// looks for <host>/hosts.toml before it pulls from host. It is read at each
// pull, so changes need no restart.
// See https://github.com/containerd/containerd/blob/main/docs/hosts.md
func RegistriesDir(dataDir string) string {
	return layout{data: dataDir}.registries()
}

// RedirectRegistry has images of a registry pulled from another place: host is
// as in image names, with its port if any; endpoint is a URL, and with the
// scheme http it is spoken to without TLS. Registries on loopback addresses
// need no redirection to be spoken to without TLS.
func RedirectRegistry(dataDir, host, endpoint string) error {
	if host == "" || strings.ContainsAny(host, "/\\") || strings.HasPrefix(host, ".") {
		return fmt.Errorf("registry host %q: want a host name and perhaps a port", host)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("registry endpoint %q: want an http or https URL", endpoint)
	}
	dir := filepath.Join(RegistriesDir(dataDir), host)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	content := "server = " + strconv.Quote(endpoint) + "\n\n[host." + strconv.Quote(endpoint) + "]\ncapabilities = [\"pull\", \"resolve\"]\n"
	path := filepath.Join(dir, "hosts.toml")
	if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
