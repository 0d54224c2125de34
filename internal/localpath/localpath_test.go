package localpath

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/volumes"
)

func testClaim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u"}}
}

func testNode(name, host string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: host}}}
}

func TestVolume(t *testing.T) {
	v := Volume(testClaim(), Class(), testNode("n1", "host-1"), "/data/volumes")
	if v.Spec.Local.Path != "/data/volumes/pvc-u_ns_data" || !Ours(v) || Made(v) || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("got %+v", v)
	}
	if !volumes.OnNode(v, testNode("n1", "host-1")) || volumes.OnNode(v, testNode("n2", "host-2")) {
		t.Error("the volume is not on its node alone")
	}
}

// TestPlace: a keeper touches nothing but what lies right in its folder and
// bears the volume's name, whatever a volume says.
func TestPlace(t *testing.T) {
	for path, ok := range map[string]bool{
		"/volumes/pvc-u_ns_data": true, "/volumes/pvc-u_": true, "/volumes/pvc-u": false, "/volumes": false, "/volumes/": false, "/": false,
		"/volumes/../etc": false, "/volumes/pvc-u_x/../../etc": false, "/volumes/pvc-u_x/sub": false, "/volumes/pvc-other_x": false,
		"/volumesx/pvc-u_x": false, "volumes/pvc-u_x": false, "/volumes//pvc-u_x": false, "": false, "/volumes/pvc-u_x/": false,
	} {
		v := Volume(testClaim(), Class(), testNode("n", "n"), "/volumes")
		v.Spec.Local.Path = path
		if got := place(v, "/volumes"); (got != "") != ok {
			t.Errorf("%q is taken for %q", path, got)
		}
	}
}

func TestHost(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "volumes")
	path, d := filepath.Join(folder, "pvc-u_ns_data"), Host{}
	if list, err := d.List(folder); err != nil || len(list) != 0 {
		t.Errorf("a folder that is not there has %v, %v", list, err)
	}
	if err := d.Make(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("got %v, %v", info, err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v", info, err)
	}
	kept := filepath.Join(path, "sub", "file")
	if err := os.Mkdir(filepath.Dir(kept), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o770); err != nil {
		t.Fatal(err)
	}
	// What is there stays, its mode included.
	if err := d.Make(path); err != nil {
		t.Fatal(err)
	}
	d.Prune(path)
	if b, err := os.ReadFile(kept); err != nil || string(b) != "x" {
		t.Errorf("the data is %q, %v", b, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o770 {
		t.Errorf("got %v, %v", info, err)
	}
	if list, err := d.List(folder); err != nil || len(list) != 1 || list[0] != path {
		t.Errorf("the folder has %v, %v", list, err)
	}
	for range 2 {
		if err := d.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
	// A link in its place is no folder, and what it leads to is not touched.
	outside := t.TempDir()
	if err := os.Symlink(outside, path); err != nil {
		t.Fatal(err)
	}
	if err := d.Make(path); err == nil {
		t.Error("a link was taken for a folder")
	}
	if err := d.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}
