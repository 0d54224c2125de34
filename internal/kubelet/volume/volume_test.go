package volume

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kubelet/env"
)

// tree is what a folder shows: names with their content, through links.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		err := filepath.WalkDir(filepath.Join(dir, e.Name())+"/.", func(path string, d fs.DirEntry, err error) error {
			if err != nil { // a link to a file is no folder
				path = filepath.Join(dir, e.Name())
			} else if d.IsDir() {
				return nil
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(dir, path)
			out = append(out, name+"="+string(b)+" "+info.Mode().Perm().String())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func TestWriteFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(files map[string]File) string {
		t.Helper()
		if err := writeFiles(dir, files, nil); err != nil {
			t.Fatal(err)
		}
		to, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	one := map[string]File{"a": {[]byte("1"), 0o644}, "sub/b": {[]byte("2"), 0o400}}
	first := write(one)
	if got, want := tree(t, dir), "a=1 -rw-r--r--, sub/b=2 -r--------"; got != want {
		t.Errorf("files are %s, want %s", got, want)
	}
	if again := write(one); again != first {
		t.Error("the same files were written anew")
	}
	if second := write(map[string]File{"a": {[]byte("3"), 0o644}, "c": {nil, 0o644}}); second == first {
		t.Error("other files are in the same folder")
	}
	if got, want := tree(t, dir), "a=3 -rw-r--r--, c= -rw-r--r--"; got != want {
		t.Errorf("files are %s, want %s", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, first)); !os.IsNotExist(err) {
		t.Error("the old files are there")
	}
	// Killed before the rename: the next write goes on.
	if err := os.Symlink("nowhere", filepath.Join(dir, tmpLink)); err != nil {
		t.Fatal(err)
	}
	write(one)
	for _, bad := range []string{"../x", "/x", "", "..x", "a/../../x"} {
		if err := writeFiles(dir, map[string]File{bad: {}}, nil); err == nil {
			t.Errorf("%q was written", bad)
		}
	}
}

type objects struct{}

func (objects) ConfigMap(_ context.Context, ns, name string) (*v1.ConfigMap, error) {
	if name != "cm" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &v1.ConfigMap{Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {2}}}, nil
}

func (objects) Secret(_ context.Context, ns, name string) (*v1.Secret, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func manager(t *testing.T, tokens *int) *Manager {
	return New(Options{Root: t.TempDir(), Objects: objects{}, Facts: func(*v1.Pod) env.Pod { return env.Pod{} },
		Token: func(_ context.Context, _ *v1.Pod, audience string, seconds int64) (string, time.Time, error) {
			*tokens++
			return "for " + audience, time.Now().Add(time.Duration(seconds) * time.Second), nil
		}})
}

func TestContent(t *testing.T) {
	yes, m := true, int32(0o400)
	n := 0
	mgr := manager(t, &n)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Namespace: "ns", Name: "p", Labels: map[string]string{"x": "y"}}}
	files := func(s v1.VolumeSource) (map[string]File, time.Time, error) {
		return mgr.content(t.Context(), pod, &v1.Volume{Name: "v", VolumeSource: s})
	}
	got, _, err := files(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "cm"},
		Items: []v1.KeyToPath{{Key: "a", Path: "p/q", Mode: &m}}}})
	if err != nil || len(got) != 1 || string(got["p/q"].Data) != "1" || got["p/q"].Mode != 0o400 {
		t.Errorf("items: %v %v", got, err)
	}
	_, _, err = files(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}, Items: []v1.KeyToPath{{Key: "none", Path: "p"}}}})
	if err == nil || err.Error() != "configmap references non-existent configmap key: none" {
		t.Errorf("missing key: %v", err)
	}
	if _, _, err = files(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "none"}}); !apierrors.IsNotFound(err) {
		t.Errorf("missing secret: %v", err)
	}
	if got, _, err = files(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "none", Optional: &yes}}); err != nil || len(got) != 0 {
		t.Errorf("optional secret: %v %v", got, err)
	}
	hour := int64(3600)
	all := v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}}},
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", Audience: "them", ExpirationSeconds: &hour}},
		{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
	}}}
	got, renew, err := files(all)
	if err != nil || string(got["token"].Data) != "for them" || string(got["labels"].Data) != `x="y"` || got["b"].Data[0] != 2 {
		t.Errorf("projected: %v %v", got, err)
	}
	if left := time.Until(renew); left > 48*time.Minute || left < 47*time.Minute {
		t.Errorf("the token is renewed after %v, want 48 min of an hour", left)
	}
	if _, _, err = files(all); err != nil || n != 1 {
		t.Errorf("asked for %d tokens (%v), want one", n, err)
	}
}

func TestHostPath(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		kind v1.HostPathType
		ok   bool
	}{
		{dir, v1.HostPathDirectory, true}, {file, v1.HostPathDirectory, false}, {file, v1.HostPathFile, true}, {dir, v1.HostPathFile, false},
		{dir + "/none", v1.HostPathUnset, true}, {dir + "/none", v1.HostPathDirectory, false}, {dir + "/new", v1.HostPathDirectoryOrCreate, true},
		{dir + "/newfile", v1.HostPathFileOrCreate, true}, {"/dev/null", v1.HostPathCharDev, true}, {file, v1.HostPathSocket, false},
	} {
		if err := hostPath(c.path, &c.kind); (err == nil) != c.ok {
			t.Errorf("%s as %q: %v", c.path, c.kind, err)
		}
	}
	if info, err := os.Stat(dir + "/new"); err != nil || !info.IsDir() {
		t.Errorf("folder was not made: %v", err)
	}
}

// A part of a volume that a link leads out of is refused.
func TestSubPath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts")
	}
	n := 0
	m := manager(t, &n)
	v := v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: v1.PodSpec{Volumes: []v1.Volume{v}}}
	t.Cleanup(func() {
		if err := m.Unmount(context.Background(), "u"); err != nil {
			t.Error(err)
		}
	})
	if _, err := m.Mount(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(m.Path(pod, &v), "link")); err != nil {
		t.Fatal(err)
	}
	path, err := m.SubPath(pod, &v, "c", 0, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("the part is not for all that the volume is for: %v %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(path, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(m.Path(pod, &v), "a/b/f")); string(b) != "x" {
		t.Errorf("the part is not of the volume: %q %v", b, err)
	}
	path, err = m.SubPath(pod, &v, "c", 1, "link/x")
	if err == nil {
		if err := os.WriteFile(filepath.Join(path, "f"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("a part reached outside the volume: %v", entries)
	}
	if _, err := m.SubPath(pod, &v, "c", 2, "../x"); err == nil {
		t.Error("a path with .. was taken")
	}
	if err := m.Unmount(context.Background(), "u"); err != nil {
		t.Fatal(err)
	}
	if m.Exists("u") {
		t.Error("the folder is there")
	}
}

// One volume that cannot be made, or brought up to date, does not hold the
// others back.
func TestMountGoesOn(t *testing.T) {
	n := 0
	mgr := manager(t, &n)
	config := func(name, of string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: of}}}}
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Namespace: "ns", Name: "p"},
		Spec: v1.PodSpec{Volumes: []v1.Volume{config("bad", "none"), config("good", "cm")}}}
	if _, err := mgr.Mount(t.Context(), pod); err == nil || !strings.HasPrefix(err.Error(), `MountVolume.SetUp failed for volume "bad" : `) {
		t.Errorf("the error is %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(mgr.Path(pod, &pod.Spec.Volumes[1]), "a")); err != nil || string(b) != "1" {
		t.Errorf("the other volume holds %q, %v", b, err)
	}
}
