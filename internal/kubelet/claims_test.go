package kubelet

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

func TestUsableClaims(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}
	own := &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}
	named := &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
	claim := func(change ...func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
		c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	for name, test := range map[string]struct {
		vol  *v1.Volume
		c    *v1.PersistentVolumeClaim
		want string
	}{
		"bound":     {named, claim(), ""},
		"pending":   {named, claim(func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimPending }), "PVC is not bound: it is Pending"},
		"lost":      {named, claim(func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimLost }), "PVC is not bound: it is Lost"},
		"going":     {named, claim(func(c *v1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }), "PVC is being deleted"},
		"another's": {own, claim(), "pod is not owner"},
		"its own": {own, claim(func(c *v1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
		}), ""},
	} {
		wantText(t, name, usable(pod, test.vol, test.c), test.want)
	}

	pv := func(change ...func(*v1.PersistentVolume)) *v1.PersistentVolume {
		v := localpath.Volume(claim(), localpath.Class(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, "/volumes")
		v.Finalizers = []string{localpath.Finalizer}
		for _, f := range change {
			f(v)
		}
		return v
	}
	node := func(name string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
	}
	for name, test := range map[string]struct {
		pv   *v1.PersistentVolume
		node *v1.Node
		want string
	}{
		"made":     {pv(), node("n1"), ""},
		"not made": {pv(func(v *v1.PersistentVolume) { v.Finalizers = nil }), node("n1"), "is not made yet"},
		"by another": {pv(func(v *v1.PersistentVolume) {
			v.Finalizers, v.Annotations = nil, map[string]string{volumes.ProvisionedBy: "x"}
		}), node("n1"), ""},
		"elsewhere": {pv(), node("n2"), "NodeAffinity check failed"},
		"nobody's":  {pv(func(v *v1.PersistentVolume) { v.Spec.ClaimRef = nil }), node("n1"), "has no claimRef"},
		"another's": {pv(func(v *v1.PersistentVolume) { v.Spec.ClaimRef.UID = "other" }), node("n1"), "has the claimRef uid other"},
	} {
		wantText(t, name, reachable(test.pv, claim(), test.node), test.want)
	}
}

func wantText(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}
