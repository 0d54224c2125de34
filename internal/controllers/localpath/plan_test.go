package localpath

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

func TestPlanClaim(t *testing.T) {
	claim := func(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u",
			Annotations: map[string]string{volumes.StorageProvisioner: localpath.Provisioner, volumes.SelectedNode: "n1"}},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(localpath.ClassName)}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{localpath.FolderAnnotation: "/data/volumes"}}}
	plain := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	class := localpath.Class()
	immediate := localpath.Class()
	immediate.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
	unselected := func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, volumes.SelectedNode) }
	parameters := localpath.Class()
	parameters.Parameters = map[string]string{"nodePath": "/x"}
	block := corev1.PersistentVolumeBlock
	for name, test := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		class *storagev1.StorageClass
		node  *corev1.Node
		made  *corev1.PersistentVolume
		want  string // volume, unselect, or part of why it waits
	}{
		"selected":         {claim(), class, node, nil, "volume"},
		"made":             {claim(), class, node, &corev1.PersistentVolume{}, "to be bound"},
		"bound":            {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "x" }), class, node, nil, ""},
		"going":            {claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }), class, node, nil, ""},
		"no class":         {claim(), nil, node, nil, "class is not there"},
		"not selected":     {claim(unselected), class, nil, nil, "to select a node"},
		"immediate":        {claim(unselected), immediate, nil, nil, "must be WaitForFirstConsumer"},
		"node gone":        {claim(), class, nil, nil, "unselect"},
		"node without":     {claim(), class, plain, nil, "unselect"},
		"many writers":     {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = corev1.ReadWriteMany }), class, node, nil, "not [ReadWriteMany]"},
		"one pod":          {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = corev1.ReadWriteOncePod }), class, node, nil, "volume"},
		"block":            {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }), class, node, nil, "not Block"},
		"selector":         {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }), class, node, nil, "Selector is not supported"},
		"clone":            {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource = &corev1.TypedLocalObjectReference{} }), class, node, nil, "dataSource is not supported"},
		"class parameters": {claim(), parameters, node, nil, "knows none"},
	} {
		got := planClaim(test.claim, test.class, test.node, test.made)
		text := got.why
		if got.unselect {
			text = "unselect"
		}
		if got.volume != nil {
			text = "volume"
			if got.volume.Spec.Local.Path != "/data/volumes/pvc-u_ns_data" || !volumes.MeantFor(got.volume, test.claim) {
				t.Errorf("%s: the volume is %+v", name, got.volume.Spec)
			}
		}
		if !strings.Contains(text, test.want) || test.want == "" && text != "" {
			t.Errorf("%s: got %q, want %q", name, text, test.want)
		}
	}
}

func TestPlanVolume(t *testing.T) {
	volume := func(phase corev1.PersistentVolumePhase, policy corev1.PersistentVolumeReclaimPolicy, going, made bool) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: policy}, Status: corev1.PersistentVolumeStatus{Phase: phase}}
		if going {
			v.DeletionTimestamp = &metav1.Time{}
		}
		if made {
			v.Finalizers = []string{localpath.Finalizer}
		}
		return v
	}
	const del, retain = corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain
	for name, test := range map[string]struct {
		v     *corev1.PersistentVolume
		there bool
		want  volumeStep
	}{
		"bound":                   {volume(corev1.VolumeBound, del, false, true), true, nothing},
		"released":                {volume(corev1.VolumeReleased, del, false, true), true, deletes},
		"released, kept":          {volume(corev1.VolumeReleased, retain, false, true), true, nothing},
		"going":                   {volume(corev1.VolumeReleased, del, true, true), true, nothing},
		"going, node gone":        {volume(corev1.VolumeReleased, del, true, true), false, abandon},
		"going, nothing on it":    {volume(corev1.VolumeReleased, del, true, false), false, nothing},
		"bound, node gone":        {volume(corev1.VolumeBound, del, false, true), false, nothing},
		"released, node gone too": {volume(corev1.VolumeReleased, del, false, true), false, deletes},
	} {
		if got := planVolume(test.v, test.there); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
