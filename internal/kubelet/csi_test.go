package kubelet_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/attachdetach"
	"github.com/setpoint-project/setpoint/internal/kubelet/csi/csitest"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	storage "github.com/setpoint-project/setpoint/internal/volumes"
)

const diskDriver = "disk.example.com"

// driven gives a node a driver that mounts folders, the loop that attaches, and
// an attacher. The driver is written for a kubelet with the usual folder.
func (r *rig) driven() *csitest.Driver {
	r.t.Helper()
	d := &csitest.Driver{Name: diskDriver, NodeID: "n1", Folder: r.t.TempDir(), Mounts: true, Capabilities: []csitest.Capability{csitest.Stage, csitest.Expand},
		Local: func(path string) string { return volume.HostPath(r.opts.RootDir, path) }}
	d.Serve(r.t, filepath.Join(r.opts.RootDir, "plugins", diskDriver, "csi.sock"))
	_, told := d.Register(r.t, filepath.Join(r.opts.RootDir, "plugins_registry", diskDriver+"-reg.sock"), volume.UsualRoot+"/plugins/"+diskDriver+"/csi.sock")
	for st := range told {
		if st.PluginRegistered {
			break
		}
		r.t.Log(st.Error) // the node is not there yet
	}
	ctx, cancel := context.WithCancel(context.Background())
	loop := attachdetach.New(controllers.Options{Client: r.api.Client("loops")})
	c := r.api.Client("attacher")
	var wg sync.WaitGroup
	wg.Go(func() { loop.Run(ctx) })
	remove := c.View(client.VolumeAttachments, client.ViewOptions{}).Handle(func(_, new client.Object) {
		a, ok := new.(*storagev1.VolumeAttachment)
		if !ok || a.Status.Attached {
			return
		}
		wg.Go(func() {
			a := a.DeepCopy()
			a.Status.Attached = true
			_, _ = c.Update(ctx, client.VolumeAttachments, a, "status")
		})
	})
	r.t.Cleanup(func() { remove(); cancel(); wg.Wait() })
	return d
}

// claimed makes a volume of the driver and its claim, bound to each other.
func (r *rig) claimed(name string, mode v1.PersistentVolumeMode) {
	r.t.Helper()
	ctx, size := context.Background(), v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	c, err := client.Create(ctx, r.client, client.PersistentVolumeClaims, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{storage.BindCompleted: storage.Yes}},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, VolumeName: name, VolumeMode: &mode, StorageClassName: new("x"),
			Resources: v1.VolumeResourceRequirements{Requests: size}}})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := client.Create(ctx, r.client, client.PersistentVolumes, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		Capacity: size, AccessModes: c.Spec.AccessModes, StorageClassName: "x", ClaimRef: storage.RefTo(c), VolumeMode: &mode,
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: diskDriver, VolumeHandle: "h-" + name, FSType: "ext4"}}}}); err != nil {
		r.t.Fatal(err)
	}
	c = c.DeepCopy()
	c.Status.Phase, c.Status.Capacity = v1.ClaimBound, size
	if _, err := client.Update(ctx, r.client, client.PersistentVolumeClaims, c, "status"); err != nil {
		r.t.Fatal(err)
	}
}

// TestDriverVolumes: containers have volumes of a CSI driver: whole, in part, as
// a device, and in the pod's spec; they keep them while the kubelet is away, and
// when the last pod is gone nothing is left but the data.
func TestDriverVolumes(t *testing.T) {
	r := newRig(t)
	d := r.driven()
	ctx := context.Background()
	if _, err := client.Create(ctx, r.client, client.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskDriver}, Spec: storagev1.CSIDriverSpec{
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}}}); err != nil {
		t.Fatal(err)
	}
	r.claimed("data", v1.PersistentVolumeFilesystem)
	r.claimed("raw", v1.PersistentVolumeBlock)
	writer := r.pod("writer", `
spec:
  securityContext: {runAsUser: 1000, fsGroup: 2000}
  terminationGracePeriodSeconds: 0
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: raw, persistentVolumeClaim: {claimName: raw}}
  - {name: scratch, csi: {driver: `+diskDriver+`}}
  containers:
  - name: c
    image: `+box+`
    command: [sh, -c, "echo hello > /data/file && echo part > /part/file && echo x > /scratch/file && stat -c '%u:%g %a' /data/file && head -c 4 /dev/raw | od -A n -t x1 && echo written && sleep 100000"]
    volumeMounts: [{name: data, mountPath: /data}, {name: data, mountPath: /part, subPath: sub}, {name: scratch, mountPath: /scratch}]
    volumeDevices: [{name: raw, devicePath: /dev/raw}]
    securityContext: {runAsUser: 0}
`)
	r.await("writer", "ready", ready)
	r.logged(writer, "c", 0, "written")
	if got := r.log(writer, "c", 0); !strings.Contains(got, "0:2000 644") || !strings.Contains(got, "00 00 00 00") {
		t.Errorf("the container says %q", got)
	}
	for file, want := range map[string]string{"h-data/file": "hello\n", "h-data/sub/file": "part\n"} {
		if b, err := os.ReadFile(filepath.Join(d.Folder, file)); err != nil || string(b) != want {
			t.Errorf("the driver has %q in %s, %v", b, file, err)
		}
	}

	// The kubelet goes and comes: the driver is asked nothing.
	before := d.Calls()
	r.halt()
	r.start()
	reader := r.pod("reader", `
spec:
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  volumes: [{name: data, persistentVolumeClaim: {claimName: data, readOnly: true}}]
  containers: [{name: c, image: `+box+`, command: [sh, -c, "cat /data/file; touch /data/no"], volumeMounts: [{name: data, mountPath: /data}]}]
`)
	r.await("reader", "failed", phase(v1.PodFailed))
	r.logged(reader, "c", 0, "hello")
	r.logged(reader, "c", 0, "Read-only file system")
	r.wait("the volume of a pod that has ended is taken back", func() bool { return len(d.Calls()) >= len(before)+2 })
	if after := d.Calls()[len(before):]; len(after) != 2 || after[0] != "publish h-data" || after[1] != "unpublish h-data" {
		t.Errorf("after the restart the driver was called %q", after)
	}
	if p := r.get("writer"); p.Status.ContainerStatuses[0].RestartCount != 0 || !ready(p) {
		t.Errorf("the container did not live on: %+v", p.Status)
	}

	r.delete("writer", nil)
	r.delete("reader", nil)
	r.await("writer", "gone", gone)
	r.await("reader", "gone", gone)
	r.wait("nothing is mounted, in use or attached", func() bool {
		n, err := client.Get[*v1.Node](ctx, r.client, client.Nodes, "", "n1")
		if err != nil {
			t.Fatal(err)
		}
		list, _, err := r.client.List(ctx, client.VolumeAttachments, "", metav1.ListOptions{})
		return err == nil && len(d.Left())+len(n.Status.VolumesInUse)+len(n.Status.VolumesAttached)+len(list) == 0
	})
	if wrong := d.Wrong(); len(wrong) > 0 {
		t.Errorf("the driver was asked in the wrong order: %q", wrong)
	}
	if b, err := os.ReadFile(filepath.Join(d.Folder, "h-data", "file")); err != nil || string(b) != "hello\n" {
		t.Errorf("the data is %q, %v", b, err)
	}
	if left, err := filepath.Glob(filepath.Join(r.opts.RootDir, "plugins/kubernetes.io/csi/*/*")); err != nil || len(left) != 0 {
		t.Errorf("there is left %q, %v", left, err)
	}
}
