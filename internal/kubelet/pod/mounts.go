package pod

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/env"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
)

const hostsPath = "/etc/hosts"

// mounts are the container's: its volumes, the managed hosts file and the file
// for its last words.
func (d *Deps) mounts(pod *v1.Pod, c *v1.Container, from launch, ips []string, vars []env.Var) ([]*runtimeapi.Mount, error) {
	values := map[string]string{}
	for _, v := range vars {
		values[v.Name] = v.Value
	}
	var out []*runtimeapi.Mount
	hosts := false
	for n := range c.VolumeMounts {
		m := &c.VolumeMounts[n]
		hosts = hosts || filepath.Clean(m.MountPath) == hostsPath
		mount, err := d.volumeMount(pod, c, n, m, from.volumes, values)
		if err != nil {
			return nil, err
		}
		out = append(out, mount)
	}
	if !hosts {
		path := filepath.Join(d.Volumes.PodDir(pod.UID), "etc-hosts")
		if err := d.writeHosts(path, pod, ips); err != nil {
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: hostsPath, HostPath: path})
	}
	if c.TerminationMessagePath != "" {
		dir := filepath.Join(d.Volumes.PodDir(pod.UID), "containers", c.Name)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, err
		}
		path := filepath.Join(dir, fmt.Sprintf("%d", from.restarts))
		f, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		// Any user of the container may write its last words.
		if err := os.Chmod(path, 0o666); err != nil {
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: c.TerminationMessagePath, HostPath: path})
	}
	return out, nil
}

func (d *Deps) volumeMount(pod *v1.Pod, c *v1.Container, n int, m *v1.VolumeMount, images map[string]Image, values map[string]string) (*runtimeapi.Mount, error) {
	v := volumeNamed(pod, m.Name)
	if v == nil {
		return nil, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, c.Name)
	}
	sub := m.SubPath
	if m.SubPathExpr != "" {
		sub = env.Expand(m.SubPathExpr, values)
		if strings.Contains(sub, "$(") {
			return nil, fmt.Errorf("subPathExpr %q of volume %q names a variable that is not set", m.SubPathExpr, m.Name)
		}
	}
	at := m.MountPath
	if !filepath.IsAbs(at) {
		at = "/" + at
	}
	if v.Image != nil {
		return mountImage(v, images[v.Name], at, sub), nil
	}
	path := d.Volumes.Path(pod, v)
	if sub != "" {
		var err error
		if path, err = d.Volumes.SubPath(pod, v, c.Name, n, sub); err != nil {
			return nil, err
		}
	} else if v.HostPath != nil {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			// Without a type a host path is made where it is missing, as the
			// runtimes always did.
			if err := os.MkdirAll(path, 0o755); err != nil {
				return nil, err
			}
		}
	}
	readOnly := m.ReadOnly || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly ||
		v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
	return &runtimeapi.Mount{ContainerPath: at, HostPath: path, Readonly: readOnly, Propagation: propagation(m)}, nil
}

func propagation(m *v1.VolumeMount) runtimeapi.MountPropagation {
	if m.MountPropagation != nil {
		switch *m.MountPropagation {
		case v1.MountPropagationHostToContainer:
			return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
		case v1.MountPropagationBidirectional:
			return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
		}
	}
	return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
}

// writeHosts writes the pod's hosts file: the node's for a pod in the node's
// network, else one that knows the pod itself.
func (d *Deps) writeHosts(path string, pod *v1.Pod, ips []string) error {
	var b strings.Builder
	if pod.Spec.HostNetwork {
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		have, err := os.ReadFile(hostsPath)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		b.Write(have)
	} else {
		b.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		host := d.hostname(pod)
		for _, ip := range ips {
			if full := d.fqdn(pod, host); full != "" && full != host {
				fmt.Fprintf(&b, "%s\t%s\t%s\n", ip, full, host)
			} else {
				fmt.Fprintf(&b, "%s\t%s\n", ip, host)
			}
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
		for _, a := range pod.Spec.HostAliases {
			fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	// Written in place: containers that run already have this very file.
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}

// fileVar reads a variable of a file in a volume: lines NAME=value.
func fileVar(vols *volume.Manager, pod *v1.Pod, name, path, key string) (string, bool, error) {
	v := volumeNamed(pod, name)
	if v == nil {
		return "", false, fmt.Errorf("cannot find volume %q", name)
	}
	f, err := vols.Open(pod, v, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	} else if err != nil {
		return "", false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		k, val, ok := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		if ok && !strings.HasPrefix(k, "#") && k == key {
			if len(val) >= 2 && (val[0] == '"' || val[0] == '\'') && val[len(val)-1] == val[0] {
				val = val[1 : len(val)-1]
			}
			return val, true, nil
		}
	}
	return "", false, lines.Err()
}
