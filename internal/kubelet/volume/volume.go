// Package volume makes the volumes of pods on the node and takes them away.
//
//	<root>/pods/<uid>/volumes/kubernetes.io~<type>/<name>   a volume; those of drivers are package csi's
//	<root>/pods/<uid>/volume-subpaths/<container>/<n>       a part of one
//	<root>/pods/<uid>/etc-hosts                             managed file
//	<root>/pods/<uid>/containers/<container>/<id>           termination message
//
// Mount is idempotent: it makes what is missing, and brings volumes whose
// content follows an object (config map, secret, token, certificate, downward
// API) up to date. What follows an object is written at once or not at all (see
// atomic.go).
//
// Concurrency: a Manager may be used from many goroutines, for one pod from one
// at a time.
//
// Failure: Mount answers with an *Error that names the volume. Unmount refuses
// to delete below anything that is still mounted.
package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/kubelet/env"
)

// Error says which volume is not there and why.
type Error struct {
	Volume string
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.Volume, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Objects is where the content of volumes comes from.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
	TrustBundle(ctx context.Context, name string) (*certificatesv1.ClusterTrustBundle, error)
	// TrustBundles are those of a signer, in a fixed order.
	TrustBundles(ctx context.Context, signer string) ([]*certificatesv1.ClusterTrustBundle, error)
}

// Options of a Manager.
type Options struct {
	Root    string // the kubelet's folder
	Objects Objects
	// Token asks for a token of the pod's service account.
	Token func(ctx context.Context, pod *v1.Pod, audience string, seconds int64) (token string, expires time.Time, err error)
	// Certificates of pods; nil: there are none.
	Certificates Certificates
	// Claim finds the persistent volume behind a volume of a pod, once it may be
	// used; the error says what is missing.
	Claim func(ctx context.Context, pod *v1.Pod, v *v1.Volume) (*v1.PersistentVolume, error)
	// Drivers mount volumes of CSI drivers; nil: there are none.
	Drivers Drivers
	// Facts are what the downward API tells beside the pod's object.
	Facts func(pod *v1.Pod) env.Pod
}

// Manager makes and removes volumes.
type Manager struct {
	opts   Options
	tokens tokens
}

// New makes a Manager.
func New(opts Options) *Manager {
	return &Manager{opts: opts, tokens: tokens{known: map[tokenKey]token{}}}
}

// PodDir is a pod's folder.
func (m *Manager) PodDir(uid types.UID) string {
	return filepath.Join(m.opts.Root, "pods", string(uid))
}

// Path is where a volume of a pod lies on the host. A host path volume lies
// where it says.
func (m *Manager) Path(pod *v1.Pod, v *v1.Volume) string {
	if v.HostPath != nil {
		return HostPath(m.opts.Root, v.HostPath.Path)
	}
	if path := m.driverPath(pod, v); path != "" {
		return path
	}
	return filepath.Join(m.PodDir(pod.UID), "volumes", "kubernetes.io~"+plugin(v), v.Name)
}

func plugin(v *v1.Volume) string {
	switch {
	case v.EmptyDir != nil:
		return "empty-dir"
	case v.ConfigMap != nil:
		return "configmap"
	case v.Secret != nil:
		return "secret"
	case v.Projected != nil:
		return "projected"
	case v.DownwardAPI != nil:
		return "downward-api"
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		return "local-volume"
	}
	return "unsupported"
}

// Mount makes a pod's volumes or brings them up to date. renew is when it
// should be called again at the latest, for tokens
// and certificates; zero: no need. One volume
// that cannot be made does not keep the others from being.
func (m *Manager) Mount(ctx context.Context, pod *v1.Pod) (renew time.Time, err error) {
	if err := os.MkdirAll(m.PodDir(pod.UID), 0o750); err != nil {
		return time.Time{}, err
	}
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		at, err := m.mount(ctx, pod, v)
		if err != nil {
			errs = append(errs, &Error{v.Name, err})
			continue
		}
		if !at.IsZero() && (renew.IsZero() || at.Before(renew)) {
			renew = at
		}
	}
	return renew, errors.Join(errs...)
}

func (m *Manager) mount(ctx context.Context, pod *v1.Pod, v *v1.Volume) (renew time.Time, err error) {
	switch {
	case v.EmptyDir != nil:
		return renew, m.emptyDir(pod, v)
	case v.HostPath != nil:
		return renew, hostPath(m.Path(pod, v), v.HostPath.Type)
	case v.ConfigMap != nil, v.Secret != nil, v.Projected != nil, v.DownwardAPI != nil:
		files, renew, err := m.content(ctx, pod, v)
		if err != nil {
			return renew, err
		}
		dir := m.Path(pod, v)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return renew, err
		}
		if v.Secret != nil || v.Projected != nil {
			// What is secret does not reach a disk.
			if err := memory(dir); err != nil {
				return renew, err
			}
		}
		// The mask of this process must not narrow what a pod may read.
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
			return renew, err
		}
		return renew, writeFiles(dir, files, fsGroup(pod))
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		return m.claim(ctx, pod, v)
	case v.CSI != nil:
		return m.driver(ctx, pod, v, nil)
	case v.Image != nil:
		return renew, nil // the runtime mounts it
	}
	return renew, errors.New("no volume plugin matched: this volume type is not supported")
}

// Changing tells whether a pod has volumes that may have to be brought up to
// date: their content, or, of a driver's, their size and tokens.
func Changing(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil || v.CSI != nil || v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

func fsGroup(pod *v1.Pod) *int64 {
	if sc := pod.Spec.SecurityContext; sc != nil {
		return sc.FSGroup
	}
	return nil
}

// Exists tells whether anything of a pod is on the node.
func (m *Manager) Exists(uid types.UID) bool {
	_, err := os.Stat(m.PodDir(uid))
	return err == nil
}

// Made tells whether volumes of a pod are on the node, or about to be.
func (m *Manager) Made(uid types.UID) bool {
	if m.opts.Drivers != nil && m.opts.Drivers.Uses(uid) {
		return true
	}
	_, err := os.Stat(filepath.Join(m.PodDir(uid), "volumes"))
	return err == nil
}

// Pods lists the pods that have a folder.
func (m *Manager) Pods() []types.UID {
	entries, err := os.ReadDir(filepath.Join(m.opts.Root, "pods"))
	if err != nil {
		return nil
	}
	var out []types.UID
	for _, e := range entries {
		out = append(out, types.UID(e.Name()))
	}
	return out
}

// Unmount takes everything of a pod away: mounts first, then, when none is
// left, the folder.
func (m *Manager) Unmount(ctx context.Context, uid types.UID) error {
	m.forget(uid)
	dir := m.PodDir(uid)
	if err := m.tearDownDrivers(ctx, uid); err != nil {
		return err
	}
	if err := unmountBelow(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// TearDown takes the volumes of a pod that has ended away; what containers
// wrote as they ended stays until Unmount.
func (m *Manager) TearDown(ctx context.Context, uid types.UID) error {
	m.forget(uid)
	if err := m.tearDownDrivers(ctx, uid); err != nil {
		return err
	}
	for _, sub := range []string{"volume-subpaths", "volumes"} {
		dir := filepath.Join(m.PodDir(uid), sub)
		if err := unmountBelow(dir); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// clean refuses a name that would lead out of a folder.
func clean(name string) error {
	if name == "" || filepath.IsAbs(name) {
		return fmt.Errorf("path %q must be relative and not empty", name)
	}
	for _, part := range strings.Split(filepath.ToSlash(name), "/") {
		if part == ".." {
			return fmt.Errorf("path %q must not contain '..'", name)
		}
	}
	return nil
}
