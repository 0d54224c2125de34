package admission

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

func claimOf(class *string, size string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: named("web", "data"), Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
}

func TestDefaultStorageClass(t *testing.T) {
	class := func(name, annotation string) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: named("", name)}
		c.Annotations = map[string]string{annotation: "true"}
		return c
	}
	w := world{"storageclasses//a": class("a", "x"), "storageclasses//fast": class("fast", volumes.IsDefaultClass)}
	none, annotated := world{"storageclasses//a": class("a", "x")}, claimOf(nil, "1Gi", "")
	annotated.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "old"}
	text := func(s *string) string {
		if s == nil {
			return "nil"
		}
		return *s
	}
	for name, test := range map[string]struct {
		w     world
		claim *corev1.PersistentVolumeClaim
		op    Operation
		want  string
	}{
		"names none":      {w, claimOf(nil, "1Gi", ""), Create, "fast"},
		"wants none":      {w, claimOf(new(""), "1Gi", ""), Create, ""},
		"names one":       {w, claimOf(new("a"), "1Gi", ""), Create, "a"},
		"names one so":    {w, annotated, Create, "nil"},
		"is there":        {w, claimOf(nil, "1Gi", ""), Update, "nil"},
		"without default": {none, claimOf(nil, "1Gi", ""), Create, "nil"},
	} {
		if err := (&DefaultStorageClass{List: test.w.list}).Admit(context.Background(), request(test.op, "persistentvolumeclaims", test.claim, nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := text(test.claim.Spec.StorageClassName); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestStorageObjectInUseProtection(t *testing.T) {
	p := StorageObjectInUseProtection{}
	claim, v := claimOf(nil, "1Gi", ""), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", Finalizers: []string{volumes.VolumeProtection, "x/y"}}}
	for _, r := range []*Request{request(Create, "persistentvolumeclaims", claim, nil), request(Create, "persistentvolumes", v, nil)} {
		if err := p.Admit(context.Background(), r); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(claim.Finalizers, []string{volumes.ClaimProtection}) || !slices.Equal(v.Finalizers, []string{volumes.VolumeProtection, "x/y"}) {
		t.Errorf("the claim has %v, the volume %v", claim.Finalizers, v.Finalizers)
	}
	class := &storagev1.VolumeAttributesClass{ObjectMeta: named("", "gold")}
	if err := p.Admit(context.Background(), request(Create, "volumeattributesclasses.storage.k8s.io", class, nil)); err != nil || !slices.Equal(class.Finalizers, []string{volumes.AttributesProtection}) {
		t.Errorf("the class has %v, %v", class.Finalizers, err)
	}
	there := claimOf(nil, "1Gi", "")
	if err := p.Admit(context.Background(), request(Update, "persistentvolumeclaims", there, there)); err != nil || len(there.Finalizers) != 0 {
		t.Errorf("an update gets %v, %v", there.Finalizers, err)
	}
}

func TestPersistentVolumeClaimResize(t *testing.T) {
	yes, no := true, false
	w := world{
		"storageclasses//grows": &storagev1.StorageClass{ObjectMeta: named("", "grows"), AllowVolumeExpansion: &yes},
		"storageclasses//stays": &storagev1.StorageClass{ObjectMeta: named("", "stays"), AllowVolumeExpansion: &no},
	}
	const bound = corev1.ClaimBound
	for name, test := range map[string]struct {
		now, was *corev1.PersistentVolumeClaim
		refusal  string
	}{
		"grows":           {claimOf(new("grows"), "2Gi", bound), claimOf(new("grows"), "1Gi", bound), ""},
		"stays the same":  {claimOf(new("stays"), "1Gi", bound), claimOf(new("stays"), "1Gi", bound), ""},
		"asks for less":   {claimOf(new("stays"), "1Gi", bound), claimOf(new("stays"), "2Gi", bound), ""},
		"is not bound":    {claimOf(new("grows"), "2Gi", "Pending"), claimOf(new("grows"), "1Gi", "Pending"), "Only bound persistent volume claims can be expanded"},
		"may not":         {claimOf(new("stays"), "2Gi", bound), claimOf(new("stays"), "1Gi", bound), "must support resize"},
		"has no class":    {claimOf(new(""), "2Gi", bound), claimOf(new(""), "1Gi", bound), "must support resize"},
		"class is gone":   {claimOf(new("gone"), "2Gi", bound), claimOf(new("gone"), "1Gi", bound), "must support resize"},
		"changes classes": {claimOf(new("grows"), "2Gi", bound), claimOf(new("stays"), "1Gi", bound), "must support resize"},
	} {
		err := (&PersistentVolumeClaimResize{Get: w.get}).Validate(context.Background(), request(Update, "persistentvolumeclaims", test.now, test.was))
		if test.refusal != "" {
			wantRefused(t, err, 403, test.refusal)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNodesVolumes(t *testing.T) {
	on := func(node string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Labels: map[string]string{localpath.NodeLabel: node},
			Annotations: map[string]string{volumes.ProvisionedBy: localpath.Provisioner}, Finalizers: []string{volumes.VolumeProtection}},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/x"}}}}
		for _, f := range change {
			f(v)
		}
		return v
	}
	made := func(v *corev1.PersistentVolume) { v.Finalizers = append(v.Finalizers, localpath.Finalizer) }
	unprotected := func(v *corev1.PersistentVolume) { v.Finalizers = nil }
	kept := func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = "Retain" }
	others := func(v *corev1.PersistentVolume) { v.Annotations[volumes.ProvisionedBy] = "example.com/disks" }
	kubelet := &authn.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}
	p := &NodeRestriction{Get: world{}.get, NodeOf: authz.NodeOf}
	for name, test := range map[string]struct {
		now, was *corev1.PersistentVolume
		refusal  string
	}{
		"made":                {on("n1", made), on("n1"), ""},
		"removed":             {on("n1"), on("n1", made), ""},
		"another's":           {on("n2", made), on("n2"), "that lie on it"},
		"taken over":          {on("n1", made), on("n2"), "that lie on it"},
		"given away":          {on("n2", made), on("n1"), "not allowed to modify"},
		"unprotected":         {on("n1", unprotected), on("n1"), "not allowed to modify"},
		"kept":                {on("n1", made, kept), on("n1"), "not allowed to modify"},
		"another provisioner": {on("n1", others, made), on("n1", others), "that lie on it"},
	} {
		r := request(Update, "persistentvolumes", test.now, test.was)
		r.User = kubelet
		err := p.Admit(context.Background(), r)
		if test.refusal != "" {
			wantRefused(t, err, 403, test.refusal)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := request(Create, "persistentvolumes", on("n1"), nil)
	r.User = kubelet
	wantRefused(t, p.Admit(context.Background(), r), 403, "can only update")
}
