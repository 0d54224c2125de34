package volumes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func volume(name, size, class string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany}, StorageClassName: class,
	}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable}}
	for _, f := range change {
		f(v)
	}
	return v
}

func claim(size string, class *string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}}
	for _, f := range change {
		f(c)
	}
	return c
}

func TestUnfit(t *testing.T) {
	block, gold := corev1.PersistentVolumeBlock, "gold"
	for name, test := range map[string]struct {
		v   *corev1.PersistentVolume
		c   *corev1.PersistentVolumeClaim
		fit bool
	}{
		"as large":      {volume("v", "1Gi", ""), claim("1Gi", nil), true},
		"larger":        {volume("v", "2Gi", ""), claim("1Gi", nil), true},
		"too small":     {volume("v", "1023Mi", ""), claim("1Gi", nil), false},
		"another class": {volume("v", "1Gi", "a"), claim("1Gi", new("b")), false},
		"class by the old": {volume("v", "1Gi", "a"), claim("1Gi", nil, func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "a"}
		}), true},
		"one says none": {volume("v", "1Gi", ""), claim("1Gi", new("")), true},
		"block":         {volume("v", "1Gi", "", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &block }), claim("1Gi", nil), false},
		"both block": {volume("v", "1Gi", "", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &block }),
			claim("1Gi", nil, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }), true},
		"another mode of access": {volume("v", "1Gi", ""), claim("1Gi", nil, func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = corev1.ReadWriteMany }), false},
		"other attributes":       {volume("v", "1Gi", ""), claim("1Gi", nil, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = &gold }), false},
	} {
		if why := Unfit(test.v, test.c); (why == "") != test.fit {
			t.Errorf("%s: got %q", name, why)
		}
	}
}

func TestSmallest(t *testing.T) {
	onB := func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}}}}}}
	}
	all := []*corev1.PersistentVolume{
		volume("large", "9Gi", ""), volume("z", "2Gi", ""), volume("y", "2Gi", ""),
		volume("taken", "1Gi", "", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = &corev1.ObjectReference{Name: "other"} }),
		volume("released", "1Gi", "", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased }),
		volume("going", "1Gi", "", func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{Time: time.Now()} }),
		volume("b", "1Gi", "", onB),
		volume("red", "5Gi", "", func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"color": "red"} }),
	}
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	}
	red := claim("1Gi", nil, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"color": "red"}}
	})
	for want, got := range map[string]*corev1.PersistentVolume{
		"y": Smallest(all, claim("1Gi", nil), node("a")), "b": Smallest(all, claim("1Gi", nil), node("b")),
		"large": Smallest(all, claim("6Gi", nil), nil), "red": Smallest(all, red, nil),
	} {
		if got == nil || got.Name != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	if got := Smallest(all, claim("10Gi", nil), nil); got != nil {
		t.Errorf("got %s for what none has room for", got.Name)
	}
}

func TestDefaultClass(t *testing.T) {
	class := func(name string, age time.Duration, annotation string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotation: "true"},
			CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))}}
	}
	old, young, twin, plain := class("a", time.Hour, IsDefaultClass), class("z", 0, BetaIsDefaultClass), class("y", 0, IsDefaultClass), class("b", 0, "other")
	if got := DefaultClass([]*storagev1.StorageClass{old, young, plain, twin}); got != twin {
		t.Errorf("got %v, want the newest, first by name", got.Name)
	}
	if got := DefaultClass([]*storagev1.StorageClass{plain}); got != nil {
		t.Errorf("got %v, want none", got.Name)
	}
}

func TestBound(t *testing.T) {
	c, v := claim("1Gi", nil), volume("v", "1Gi", "")
	given := GiveTo(v, c)
	if v.Spec.ClaimRef != nil || given.Annotations[BoundByController] != Yes || !MeantFor(given, c) {
		t.Errorf("given %+v", given)
	}
	if Bound(given, c) {
		t.Error("a claim that does not know its volume is bound")
	}
	c.Spec.VolumeName, c.Annotations = "v", map[string]string{BindCompleted: Yes}
	if !Bound(given, c) || Bound(nil, c) {
		t.Error("bound is bound, and nothing is not")
	}
	again := c.DeepCopy()
	again.UID = "2"
	if Bound(given, again) || MeantFor(given, again) {
		t.Error("a volume is another claim's of the same name")
	}
	meant := volume("v", "1Gi", "", func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "data"}
	})
	if !MeantFor(meant, again) || GiveTo(meant, again).Annotations[BoundByController] != "" {
		t.Error("who meant a volume for a claim keeps it so")
	}
}
