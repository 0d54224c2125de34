package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func localVolume(path string) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}}}
}

func claimPod(group *int64, change ...func(*v1.Pod)) (*v1.Pod, *v1.Volume) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"}, Spec: v1.PodSpec{
		SecurityContext: &v1.PodSecurityContext{FSGroup: group}, Containers: []v1.Container{{Name: "c"}},
		Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}}}}}
	for _, f := range change {
		f(pod)
	}
	return pod, &pod.Spec.Volumes[0]
}

// TestGroup: a local volume becomes the pod's group's, with all that is in it,
// and a link in it leads nowhere.
func TestGroup(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	for path, mode := range map[string]fs.FileMode{filepath.Join(dir, "sub", "file"): 0o600, filepath.Join(dir, "run"): 0o700 | fs.ModeSetuid, outside: 0o600} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	mode := func(path string) string {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().String()
	}
	group := int64(os.Getgid())
	pod, v := claimPod(&group)
	if path, err := New(Options{}).source(pod, v, localVolume(dir)); err != nil || path != dir {
		t.Fatalf("got %s, %v", path, err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "sub"): "dgrwxrwx---", filepath.Join(dir, "sub", "file"): "-rw-rw----", filepath.Join(dir, "run"): "urwxrw----", outside: "-rw-------",
	} {
		if got := mode(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	// Another time nothing is done when the root is right already.
	if err := os.Chmod(filepath.Join(dir, "sub", "file"), 0o600); err != nil {
		t.Fatal(err)
	}
	policy := v1.FSGroupChangeOnRootMismatch
	pod.Spec.SecurityContext.FSGroupChangePolicy = &policy
	if _, err := New(Options{}).source(pod, v, localVolume(dir)); err != nil {
		t.Fatal(err)
	}
	if got := mode(filepath.Join(dir, "sub", "file")); got != "-rw-------" {
		t.Errorf("the file became %s though the root was right", got)
	}
	v.PersistentVolumeClaim.ReadOnly, pod.Spec.SecurityContext.FSGroupChangePolicy = true, nil
	if _, err := New(Options{}).source(pod, v, localVolume(dir)); err != nil {
		t.Fatal(err)
	}
	if got := mode(filepath.Join(dir, "sub", "file")); got != "-rw-------" {
		t.Errorf("the file became %s though the volume is only read", got)
	}
}

func TestClaimRefusals(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mode := func(m v1.PersistentVolumeMode) *v1.PersistentVolume {
		pv := localVolume(dir)
		pv.Spec.VolumeMode = &m
		return pv
	}
	device := func(p *v1.Pod) {
		p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "data", DevicePath: "/dev/x"}}
	}
	csi := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{}}}}
	wait := errors.New("PVC is not bound")
	for want, test := range map[string]struct {
		change func(*v1.Pod)
		pv     *v1.PersistentVolume
		err    error
	}{
		"PVC is not bound": {nil, nil, wait},
		"has volumeMode Block, but is specified in volumeMounts":       {nil, mode(v1.PersistentVolumeBlock), nil},
		"has volumeMode Filesystem, but is specified in volumeDevices": {device, mode(v1.PersistentVolumeFilesystem), nil},
		"which this kubelet supports of CSI drivers only":              {device, mode(v1.PersistentVolumeBlock), nil},
		"CSI volumes are not supported":                                {nil, csi, nil},
		"does not exist":                                               {nil, localVolume(filepath.Join(dir, "gone")), nil},
		"is not a directory":                                           {nil, localVolume(file), nil},
	} {
		pod, v := claimPod(nil)
		if test.change != nil {
			test.change(pod)
		}
		m := New(Options{Root: t.TempDir(), Claim: func(context.Context, *v1.Pod, *v1.Volume) (*v1.PersistentVolume, error) { return test.pv, test.err }})
		_, err := m.Mount(context.Background(), pod)
		var which *Error
		if !errors.As(err, &which) || which.Volume != v.Name || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q of volume %s", err, want, v.Name)
		}
		if _, err := os.Stat(m.Path(pod, v)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: something was made all the same: %v", want, err)
		}
	}
}
