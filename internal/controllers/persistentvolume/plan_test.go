package persistentvolume

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/volumes"
)

func pv(name string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
	}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable}}
	for _, f := range change {
		f(v)
	}
	return v
}

func pvc(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(""),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	for _, f := range change {
		f(c)
	}
	return c
}

func ref(name string, uid types.UID) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = volumes.RefTo(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}})
	}
}

func noted(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func byController(v *corev1.PersistentVolume) {
	v.Annotations = noted(volumes.BoundByController, volumes.Yes)
}

func phase(p corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Status.Phase = p }
}

func policy(p corev1.PersistentVolumeReclaimPolicy) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = p }
}

func provisioned(v *corev1.PersistentVolume) {
	v.Annotations = noted(volumes.ProvisionedBy, "example.com/disks")
}

func names(volume string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
}

func completed(c *corev1.PersistentVolumeClaim) {
	c.Annotations = noted(volumes.BindCompleted, volumes.Yes)
}

func classed(name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &name }
}

func class(provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disks"}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

// text is a step for a person, and for a test.
func text(s step) string {
	var out []string
	if s.volume != nil && !s.status {
		out = append(out, fmt.Sprintf("volume %s for %s", s.volume.Name, refText(s.volume.Spec.ClaimRef)))
	}
	if s.volume != nil && s.status {
		out = append(out, fmt.Sprintf("volume %s", s.volume.Status.Phase))
	}
	if s.claim != nil && !s.status {
		out = append(out, fmt.Sprintf("claim of %s, class %s, completed %q, provisioner %q", s.claim.Spec.VolumeName, volumes.ClaimClass(s.claim), s.claim.Annotations[volumes.BindCompleted], s.claim.Annotations[volumes.StorageProvisioner]))
	}
	if s.claim != nil && s.status {
		out = append(out, fmt.Sprintf("claim %s", s.claim.Status.Phase))
	}
	if s.final {
		out = append(out, "final")
	}
	if s.event != nil {
		out = append(out, "event "+s.event.reason)
	}
	if s.why != "" {
		out = append(out, "waits on "+s.on)
	}
	return strings.Join(out, "; ")
}

func refText(r *corev1.ObjectReference) string {
	if r == nil {
		return "nobody"
	}
	return r.Name + "(" + string(r.UID) + ")"
}

func TestPlanClaim(t *testing.T) {
	immediate, wait := storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
	small := func(v *corev1.PersistentVolume) {
		v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Mi")
	}
	going := func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }
	selected := func(c *corev1.PersistentVolumeClaim) { c.Annotations = noted(volumes.SelectedNode, "n") }
	asked := func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = noted(volumes.StorageProvisioner, "example.com/disks", volumes.BetaStorageProvisioner, "example.com/disks")
	}
	deleted := func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }
	for _, test := range []struct {
		name string
		w    claimWorld
		want string
	}{
		{"takes a free one", claimWorld{claim: pvc(), free: []*corev1.PersistentVolume{pv("a")}}, "volume a for data(1)"},
		{"prefers what is meant for it", claimWorld{claim: pvc(), free: []*corev1.PersistentVolume{pv("a")}, meant: []*corev1.PersistentVolume{pv("b", ref("data", ""))}}, "volume b for data(1)"},
		{"prefers what has its uid", claimWorld{claim: pvc(), meant: []*corev1.PersistentVolume{pv("b", ref("data", "")), pv("c", ref("data", "1"))}}, `claim of c, class , completed "yes", provisioner ""`},
		{"leaves what is meant for one of old", claimWorld{claim: pvc(), meant: []*corev1.PersistentVolume{pv("b", ref("data", "other"))}}, "event FailedBinding; waits on "},
		{"leaves what is meant for it and too small", claimWorld{claim: pvc(), meant: []*corev1.PersistentVolume{pv("b", ref("data", ""), small)}}, "event FailedBinding; waits on "},
		{"gets nothing when it goes", claimWorld{claim: pvc(deleted), free: []*corev1.PersistentVolume{pv("a")}}, ""},
		{"says that it is bound", claimWorld{claim: pvc(names("a"), completed), volume: pv("a", ref("data", "1"))}, "claim Bound"},
		{"asks for one", claimWorld{claim: pvc(names("a")), volume: pv("a")}, "volume a for data(1)"},
		{"asks for one that is not there", claimWorld{claim: pvc(names("a"))}, "waits on PersistentVolume a"},
		{"asks for one that is too small", claimWorld{claim: pvc(names("a")), volume: pv("a", small)}, "event VolumeMismatch; waits on PersistentVolume a"},
		{"asks for one that goes", claimWorld{claim: pvc(names("a")), volume: pv("a", going)}, "waits on PersistentVolume a"},
		{"asks for one that goes and is meant for it", claimWorld{claim: pvc(names("a")), volume: pv("a", ref("data", ""), going)}, "waits on PersistentVolume a"},
		{"leaves what is meant for it and goes", claimWorld{claim: pvc(), meant: []*corev1.PersistentVolume{pv("b", ref("data", ""), going)}}, "event FailedBinding; waits on "},
		{"asks for another's", claimWorld{claim: pvc(names("a")), volume: pv("a", ref("else", "other"))}, "event FailedBinding; waits on PersistentVolume a"},
		{"has lost its volume", claimWorld{claim: pvc(names("a"), completed)}, "claim Lost; final; event ClaimLost"},
		{"has lost its reference", claimWorld{claim: pvc(completed)}, "claim Lost; final; event ClaimLost"},
		{"shares a volume", claimWorld{claim: pvc(names("a"), completed), volume: pv("a", ref("else", "other"))}, "claim Lost; final; event ClaimMisbound"},
		{"is given back its volume", claimWorld{claim: pvc(names("a"), completed), volume: pv("a")}, "volume a for data(1)"},
		{"gets the default class", claimWorld{claim: pvc(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }), fallback: class("p", immediate)}, `claim of , class disks, completed "", provisioner ""`},
		{"wants no class", claimWorld{claim: pvc(), fallback: class("p", immediate)}, "event FailedBinding; waits on "},
		{"its class is not there", claimWorld{claim: pvc(classed("disks"))}, "event ProvisioningFailed; waits on StorageClass disks"},
		{"waits for a consumer", claimWorld{claim: pvc(classed("disks")), class: class("example.com/disks", wait), free: []*corev1.PersistentVolume{pv("a")}}, "event WaitForFirstConsumer; waits on Pod"},
		{"waits for a pod's node", claimWorld{claim: pvc(classed("disks")), class: class("example.com/disks", wait),
			pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}}, "event WaitForPodScheduled; waits on Pod ns/web"},
		{"takes what the scheduler chose", claimWorld{claim: pvc(classed("disks")), class: class("example.com/disks", wait),
			meant: []*corev1.PersistentVolume{pv("b", ref("data", "1"), byController)}}, `claim of b, class disks, completed "yes", provisioner ""`},
		{"has a node", claimWorld{claim: pvc(classed("disks"), selected), class: class("example.com/disks", wait)},
			`claim of , class disks, completed "", provisioner "example.com/disks"; event ExternalProvisioning`},
		{"asks a provisioner", claimWorld{claim: pvc(classed("disks")), class: class("example.com/disks", immediate)},
			`claim of , class disks, completed "", provisioner "example.com/disks"; event ExternalProvisioning`},
		{"has asked", claimWorld{claim: pvc(classed("disks"), asked), class: class("example.com/disks", immediate)}, "waits on provisioner example.com/disks"},
		{"nobody provisions", claimWorld{claim: pvc(classed("disks")), class: class(volumes.NoProvisioner, immediate)}, "event ProvisioningFailed; waits on StorageClass disks"},
	} {
		before := test.w.claim.DeepCopy()
		if got := text(planClaim(&test.w)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		if before.String() != test.w.claim.String() {
			t.Errorf("%s: the claim was changed", test.name)
		}
	}
}

// TestBoundSizes: the room that a claim says it has is the volume's when it is
// bound, and later what whoever resizes says.
func TestBoundSizes(t *testing.T) {
	v := pv("a", ref("data", "1"))
	c := pvc(names("a"), completed)
	s := planClaim(&claimWorld{claim: c, volume: v})
	if got := s.claim.Status.Capacity[corev1.ResourceStorage]; got.String() != "2Gi" {
		t.Errorf("the claim has %s", got.String())
	}
	grown := v.DeepCopy()
	grown.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("5Gi")
	if s := planClaim(&claimWorld{claim: s.claim, volume: grown}); s.claim != nil {
		t.Errorf("the binder says %+v", s.claim.Status)
	}
}

func TestPlanVolume(t *testing.T) {
	del, recycle := policy(corev1.PersistentVolumeReclaimDelete), policy(corev1.PersistentVolumeReclaimRecycle)
	for _, test := range []struct {
		name  string
		v     *corev1.PersistentVolume
		claim *corev1.PersistentVolumeClaim
		want  string
	}{
		{"new", pv("a", phase(corev1.VolumePending)), nil, "volume Available"},
		{"free", pv("a"), nil, ""},
		{"meant by name", pv("a", ref("data", ""), phase(corev1.VolumePending)), pvc(), "volume Available"},
		{"being bound", pv("a", ref("data", "1")), pvc(), ""},
		{"bound", pv("a", ref("data", "1")), pvc(names("a")), "volume Bound"},
		{"its claim is gone", pv("a", ref("data", "1"), phase(corev1.VolumeBound)), nil, "volume Released; final"},
		{"its claim is another of that name", pv("a", ref("data", "other"), phase(corev1.VolumeBound)), pvc(), "volume Released; final"},
		{"retained", pv("a", ref("data", "1"), phase(corev1.VolumeReleased)), nil, ""},
		{"to be deleted by its provisioner", pv("a", ref("data", "1"), phase(corev1.VolumeReleased), del, provisioned), nil, "waits on provisioner example.com/disks"},
		{"to be deleted by nobody", pv("a", ref("data", "1"), phase(corev1.VolumeReleased), del), nil, "volume Failed; event VolumeFailedDelete"},
		{"to be recycled", pv("a", ref("data", "1"), phase(corev1.VolumeReleased), recycle), nil, "volume Failed; event VolumeFailedRecycle"},
		{"freed by a person", pv("a", phase(corev1.VolumeReleased)), nil, "volume Available"},
		{"claim has another, bound by us", pv("a", ref("data", "1"), byController), pvc(names("b")), "volume a for nobody"},
		{"claim has another, meant by a person", pv("a", ref("data", "1")), pvc(names("b")), "volume a for data()"},
		{"claim has another, made for it", pv("a", ref("data", "1"), del, provisioned), pvc(names("b")), "volume Released; final"},
	} {
		before := test.v.DeepCopy()
		s := planVolume(test.v, test.claim)
		if got := text(s); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		if before.String() != test.v.String() {
			t.Errorf("%s: the volume was changed", test.name)
		}
		if s.status && s.volume != nil { // what is said once is not said again
			if again := planVolume(s.volume, test.claim); again.volume != nil && again.volume.Status.Phase == s.volume.Status.Phase {
				t.Errorf("%s: says %s twice", test.name, text(again))
			}
		}
	}
}
