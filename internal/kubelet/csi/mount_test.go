package csi_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/csi/csitest"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// TestVolumeOfTwoPods: attached, staged once, published for each pod; taken back
// in the opposite order, after the last pod; detached then.
func TestVolumeOfTwoPods(t *testing.T) {
	r := newRig(t, nil)
	pv, a, b := r.bound("data"), r.pod("a", "data"), r.pod("b", "data")
	r.must(r.mount(a, pv))
	r.must(r.mount(b, pv))
	r.must(r.mount(b, pv)) // again: nothing is asked
	r.awaitCalls("stage h-data", "publish h-data", "publish h-data")
	m, _ := r.now()
	if got, want := m.Path(a.UID, "v"), filepath.Join(r.root, "pods", string(a.UID), "volumes/kubernetes.io~csi/data/mount"); got != want || !m.Mounted(a.UID, "v") {
		t.Errorf("path %s, want %s", got, want)
	}
	r.must(r.tearDown(a))
	r.delete(a)
	r.awaitCalls("stage h-data", "publish h-data", "publish h-data", "unpublish h-data")
	r.must(r.tearDown(b))
	r.awaitCalls("stage h-data", "publish h-data", "publish h-data", "unpublish h-data", "unpublish h-data", "unstage h-data")
	r.delete(b)
	r.awaitGone()
}

// TestRequests: everything that objects say of a volume reaches its driver.
func TestRequests(t *testing.T) {
	r := newRig(t, func(d *csitest.Driver) { d.Capabilities = append(d.Capabilities, csitest.OneOfMany) })
	for _, s := range []string{"stage", "publish"} {
		r.create(client.Secrets, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: s}, Data: map[string][]byte{"key": []byte("of " + s)}})
	}
	r.create(client.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{
		PodInfoOnMount: new(true), TokenRequests: []storagev1.TokenRequest{{Audience: "vault", ExpirationSeconds: new(int64(700))}}, RequiresRepublish: new(true)}})
	ref := func(s string) *v1.SecretReference { return &v1.SecretReference{Namespace: "kube-system", Name: s} }
	pv := r.bound("data", func(pv *v1.PersistentVolume) {
		pv.Spec.MountOptions = []string{"noatime"}
		c := pv.Spec.CSI
		c.FSType, c.VolumeAttributes, c.NodeStageSecretRef, c.NodePublishSecretRef = "xfs", map[string]string{"tier": "gold"}, ref("stage"), ref("publish")
	})
	pod := r.pod("a", "data")
	given := ""
	group := int64(2000)
	r.must(r.mount(pod, pv, func(v *volume.DriverVolume) {
		v.Group, v.Give = &group, func(path string) error { given = path; return nil }
	}))
	staged, published := csitest.Last[*pb.NodeStageVolumeRequest](r.driver, "stage"), csitest.Last[*pb.NodePublishVolumeRequest](r.driver, "publish")
	for what, c := range map[string]*pb.VolumeCapability{"stage": staged.VolumeCapability, "publish": published.VolumeCapability} {
		mount := c.GetMount()
		if mount.GetFsType() != "xfs" || len(mount.MountFlags) != 1 || mount.MountFlags[0] != "noatime" || mount.VolumeMountGroup != "" ||
			c.AccessMode.Mode != pb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER {
			t.Errorf("%s: the capability is %v", what, c)
		}
	}
	if given == "" || given != published.TargetPath {
		t.Errorf("the group was given %q, the volume is at %q", given, published.TargetPath)
	}
	for what, d := range map[string]string{
		"stage's context":   cmp.Diff(map[string]string{"tier": "gold"}, staged.VolumeContext),
		"stage's secrets":   cmp.Diff(map[string]string{"key": "of stage"}, staged.Secrets),
		"from the attacher": cmp.Diff(map[string]string{"device": "sdz"}, staged.PublishContext),
		"attacher, publish": cmp.Diff(map[string]string{"device": "sdz"}, published.PublishContext),
		"publish's secrets": cmp.Diff(map[string]string{"key": "of publish"}, published.Secrets),
		"publish's context": cmp.Diff(map[string]string{"tier": "gold", "csi.storage.k8s.io/pod.name": "a", "csi.storage.k8s.io/pod.namespace": "default",
			"csi.storage.k8s.io/pod.uid": string(pod.UID), "csi.storage.k8s.io/serviceAccount.name": "robot", "csi.storage.k8s.io/ephemeral": "false",
			"csi.storage.k8s.io/serviceAccount.tokens": `{"vault":{"token":"a for vault, 700","expirationTimestamp":"2033-05-18T03:33:20Z"}}`}, published.VolumeContext),
	} {
		if d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	// It asks to be published again, and says so by a time.
	m, ctx := r.now()
	renew, err := m.Mount(ctx, volume.DriverVolume{Pod: pod, Name: "v", Volume: pv})
	if err != nil || renew.IsZero() {
		t.Errorf("again at %v, %v", renew, err)
	}
	r.awaitCalls("stage h-data", "publish h-data", "publish h-data")
	r.must(r.tearDown(pod))
	r.delete(pod)
	r.awaitGone()
}

// TestGroup: whose a volume becomes, by what its driver says.
func TestGroup(t *testing.T) {
	for what, test := range map[string]struct {
		policy storagev1.FSGroupPolicy
		fsType string
		change func(*volume.DriverVolume)
		caps   []csitest.Capability
		given  bool
		told   string
	}{
		"with a file system":     {storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, "ext4", nil, nil, true, ""},
		"without":                {storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, "", nil, nil, false, ""},
		"always":                 {storagev1.FileFSGroupPolicy, "", nil, nil, true, ""},
		"never":                  {storagev1.NoneFSGroupPolicy, "ext4", nil, nil, false, ""},
		"only read":              {storagev1.FileFSGroupPolicy, "ext4", func(v *volume.DriverVolume) { v.ReadOnly = true }, nil, false, ""},
		"the driver's own doing": {storagev1.FileFSGroupPolicy, "ext4", nil, []csitest.Capability{csitest.MountGroup}, false, "2000"},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, func(d *csitest.Driver) { d.Capabilities = test.caps })
			r.create(client.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false), FSGroupPolicy: &test.policy}})
			pv := r.bound("data", func(pv *v1.PersistentVolume) { pv.Spec.CSI.FSType = test.fsType })
			given, group := false, int64(2000)
			r.must(r.mount(r.pod("a", "data"), pv, func(v *volume.DriverVolume) {
				v.Group, v.Give = &group, func(string) error { given = true; return nil }
				if test.change != nil {
					test.change(v)
				}
			}))
			p := csitest.Last[*pb.NodePublishVolumeRequest](r.driver, "publish")
			if told := p.VolumeCapability.GetMount().VolumeMountGroup; given != test.given || told != test.told || p.StagingTargetPath != "" {
				t.Errorf("given %t, told %q, staged at %q", given, told, p.StagingTargetPath)
			}
			r.awaitCalls("publish h-data") // no capability, no stage
		})
	}
}

// TestInline: a volume in the pod's spec needs no attaching and no staging, but
// a driver that takes such.
func TestInline(t *testing.T) {
	r := newRig(t, nil)
	pod := r.pod("a", "")
	inline := func(v *volume.DriverVolume) {
		v.Inline = &v1.CSIVolumeSource{Driver: name, VolumeAttributes: map[string]string{"k": "v"}}
	}
	err := r.mount(pod, nil, inline)
	if err == nil || !strings.Contains(err.Error(), `volume mode "Ephemeral" not supported by driver disk.example.com (only supports ["Persistent"])`) {
		t.Errorf("got %v", err)
	}
	r.create(client.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{PodInfoOnMount: new(true),
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}}})
	r.must(r.mount(pod, nil, inline))
	p := csitest.Last[*pb.NodePublishVolumeRequest](r.driver, "publish")
	if p.VolumeContext["k"] != "v" || p.VolumeContext["csi.storage.k8s.io/ephemeral"] != "true" || !strings.HasPrefix(p.VolumeId, "csi-") || len(p.VolumeId) != 68 {
		t.Errorf("got %v", p)
	}
	if err := r.mount(r.pod("b", "data"), r.bound("data")); err == nil || !strings.Contains(err.Error(), `volume mode "Persistent" not supported`) {
		t.Errorf("got %v", err)
	}
	r.must(r.tearDown(pod))
	r.delete(pod)
	if calls := r.driver.Calls(); len(calls) != 2 {
		t.Errorf("called %q", calls)
	}
}

// TestUsualFolder: a driver that says it serves below /var/lib/kubelet does so
// below the kubelet's folder, and is told paths as it knows them.
func TestUsualFolder(t *testing.T) {
	r := newRig(t, nil)
	r.driver.Local = func(path string) string {
		rest, ok := strings.CutPrefix(path, "/var/lib/kubelet/")
		if !ok {
			t.Errorf("the driver is told %s", path)
		}
		return filepath.Join(r.root, rest)
	}
	m, ctx := r.now()
	p := r.plugin()
	p.Endpoint = "/var/lib/kubelet/plugins/" + name + "/csi.sock"
	r.must(m.Register(ctx, p))
	pv, pod := r.bound("data"), r.pod("a", "data")
	r.must(r.mount(pod, pv))
	r.must(r.tearDown(pod))
	r.delete(pod)
	r.awaitGone()
	r.awaitCalls("stage h-data", "publish h-data", "unpublish h-data", "unstage h-data")
}

// TestAttachedLater: an attachment that is not there yet, of which a node is told
// no more than of another's, is waited for.
func TestAttachedLater(t *testing.T) {
	r := newRig(t, nil)
	manage := func(yes string) {
		r.edit(client.Nodes, "", "n1", func(obj client.Object) { obj.SetAnnotations(map[string]string{volumes.ControllerManaged: yes}) })
	}
	manage("false") // nothing is attached
	pv, pod := r.bound("data"), r.pod("a", "data")
	done := make(chan error, 1)
	go func() { done <- r.mount(pod, pv) }()
	r.await("the node has looked for the attachment", func() string {
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		if r.refused.Load() == 0 {
			return "it has not"
		}
		return ""
	})
	manage("true")
	r.must(<-done)
	r.awaitCalls("stage h-data", "publish h-data")
}

// TestGrows: a volume that has become larger is enlarged on the node, and its
// claim says so.
func TestGrows(t *testing.T) {
	r := newRig(t, func(d *csitest.Driver) { d.Capabilities = append(d.Capabilities, csitest.Expand) })
	pv, pod := r.bound("data"), r.pod("a", "data")
	r.must(r.mount(pod, pv))
	r.edit(client.PersistentVolumeClaims, "default", "data", func(obj client.Object) {
		c := obj.(*v1.PersistentVolumeClaim)
		c.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue}}
		c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending}
	}, "status")
	r.edit(client.PersistentVolumes, "", "data", func(obj client.Object) {
		obj.(*v1.PersistentVolume).Spec.Capacity[v1.ResourceStorage] = resource.MustParse("3Gi")
	})
	r.await("the pod is looked at", func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, uid := range r.changed {
			if uid == pod.UID {
				return ""
			}
		}
		return "nobody was told"
	})
	pv, err := client.Get[*v1.PersistentVolume](context.Background(), r.api, client.PersistentVolumes, "", "data")
	r.must(err)
	r.must(r.mount(pod, pv))
	r.must(r.mount(pod, pv)) // once is enough
	r.awaitCalls("stage h-data", "publish h-data", "expand h-data")
	if e := csitest.Last[*pb.NodeExpandVolumeRequest](r.driver, "expand"); e.CapacityRange.RequiredBytes != 3<<30 || e.StagingTargetPath == "" {
		t.Errorf("got %v", e)
	}
	c, err := client.Get[*v1.PersistentVolumeClaim](context.Background(), r.api, client.PersistentVolumeClaims, "default", "data")
	r.must(err)
	if q := c.Status.Capacity[v1.ResourceStorage]; q.String() != "3Gi" || len(c.Status.Conditions)+len(c.Status.AllocatedResourceStatuses) != 0 {
		t.Errorf("the claim says %+v", c.Status)
	}
	if want := `a FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume "data" n1`; len(r.events) != 1 || r.events[0] != want {
		t.Errorf("events %q, want %q", r.events, want)
	}
}

// TestDriverFails: what a driver refuses is an error that says so, and is asked
// for again; what it does not take back keeps the volume from being detached.
func TestDriverFails(t *testing.T) {
	fails := map[string]int{"stage": 1, "publish": 1, "unpublish": 1, "unstage": 2}
	r := newRig(t, func(d *csitest.Driver) {
		d.Before = func(_ context.Context, call, _ string) error {
			if fails[call]--; fails[call] >= 0 {
				return fmt.Errorf("no %s today", call)
			}
			return nil
		}
	})
	pv, pod := r.bound("data"), r.pod("a", "data")
	for _, want := range []string{`MountVolume.MountDevice failed for volume "data" : rpc error: code = Unknown desc = no stage today`, "no publish today"} {
		if err := r.mount(pod, pv); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	r.must(r.mount(pod, pv))
	if err := r.tearDown(pod); err == nil || !strings.Contains(err.Error(), "no unpublish today") {
		t.Errorf("got %v", err)
	}
	r.must(r.tearDown(pod))
	r.delete(pod)
	r.awaitGone()
	other := pv.DeepCopy()
	other.Spec.CSI.Driver = "other.example.com"
	if err := r.mount(r.pod("b", "data"), other); err == nil ||
		!strings.Contains(err.Error(), "driver name other.example.com not found in the list of registered CSI drivers") {
		t.Errorf("got %v", err)
	}
}

// TestGivesUp: a pod that ends while its volume is being attached leaves nothing.
func TestGivesUp(t *testing.T) {
	r := newRig(t, nil)
	pv := r.bound("data")
	pod := r.pod("a", "")
	m, ctx := r.now()
	ctx, cancel := context.WithCancelCause(ctx)
	enough := errors.New("enough")
	done := make(chan error, 1)
	go func() {
		_, err := m.Mount(ctx, volume.DriverVolume{Pod: pod, Name: "v", Volume: pv}) // which no pod claims: it is not attached
		done <- err
	}()
	r.await("the node says that it is about to use it", func() string {
		n, err := client.Get[*v1.Node](context.Background(), r.api, client.Nodes, "", "n1")
		if err != nil || len(n.Status.VolumesInUse) != 1 || n.Status.VolumesInUse[0] != "kubernetes.io/csi/disk.example.com^h-data" {
			return fmt.Sprint(n.Status.VolumesInUse, err)
		}
		return ""
	})
	cancel(enough)
	if err := <-done; !errors.Is(err, enough) || !m.Uses(pod.UID) {
		t.Errorf("got %v, the pod uses the volume: %t", err, m.Uses(pod.UID))
	}
	r.must(r.tearDown(pod))
	if m.Uses(pod.UID) {
		t.Error("the pod still uses the volume")
	}
	r.awaitGone()
	r.awaitCalls()
}
