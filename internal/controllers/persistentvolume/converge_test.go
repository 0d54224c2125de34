package persistentvolume_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/persistentvolume"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

func volume(name, class, size string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, StorageClassName: class,
		AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/" + name}},
	}}
	for _, f := range change {
		f(v)
	}
	return v
}

func claim(name string, class *string, size string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}}
	for _, f := range change {
		f(c)
	}
	return c
}

// TestConverges: more claims than volumes of class "few", claims and volumes
// that name each other, one that loses its volume, one that is deleted, a
// default class that comes late, volumes of every policy.
func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{persistentvolume.New(o)}
		},
		Start: start,
		Meanwhile: func(w *controllertest.World) {
			if w.Rand.IntN(2) == 0 {
				w.Rest(2e9)
			}
			w.Create(client.StorageClasses, class("late", storagev1.VolumeBindingImmediate, map[string]string{volumes.IsDefaultClass: "true"}))
			w.Delete(client.PersistentVolumeClaims, "default", "goes", metav1.DeleteOptions{})
			w.Delete(client.PersistentVolumeClaims, "default", "goes-too", metav1.DeleteOptions{})
			w.Create(client.PersistentVolumeClaims, claim("goes", new("keep"), "1Gi")) // another of that name
			w.Delete(client.PersistentVolumes, "", "doomed", metav1.DeleteOptions{})
			w.Create(client.PersistentVolumes, volume("asked-for-later", "asked", "1Gi"))
			w.Create(client.PersistentVolumes, volume("few-3", "few", "1Gi"))
		},
		End:   end,
		Check: check,
	})
}

func class(name string, mode storagev1.VolumeBindingMode, annotations map[string]string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Provisioner: "example.com/disks", VolumeBindingMode: &mode}
}

func start(w *controllertest.World) {
	names := func(volume string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
	}
	meant := func(claim string) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: claim}
		}
	}
	policy := func(p corev1.PersistentVolumeReclaimPolicy) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = p }
	}
	things := []func(){
		func() { w.Create(client.PersistentVolumes, volume("few-1", "few", "1Gi")) },
		func() { w.Create(client.PersistentVolumes, volume("few-2", "few", "1Gi")) },
		func() { w.Create(client.PersistentVolumes, volume("large", "sized", "9Gi")) },
		func() { w.Create(client.PersistentVolumes, volume("little", "sized", "2Gi")) },
		func() { w.Create(client.PersistentVolumes, volume("meant", "", "1Gi", meant("has-one"))) },
		func() { w.Create(client.PersistentVolumes, volume("asked-for", "asked", "1Gi")) },
		func() { w.Create(client.PersistentVolumes, volume("doomed", "doomed", "1Gi")) },
		func() {
			w.Create(client.PersistentVolumes, volume("kept", "keep", "1Gi", meant("goes"), policy(corev1.PersistentVolumeReclaimRetain)))
		},
		func() {
			w.Create(client.PersistentVolumes, volume("wasted", "delete", "1Gi", policy(corev1.PersistentVolumeReclaimDelete)))
		},
		func() {
			w.Create(client.StorageClasses, class("slow", storagev1.VolumeBindingWaitForFirstConsumer, nil))
		},
	}
	for i := range 4 {
		things = append(things, func() {
			w.Create(client.PersistentVolumeClaims, claim(fmt.Sprintf("few-%d", i), new("few"), "1Gi"))
		})
	}
	w.Rand.Shuffle(len(things), func(i, j int) { things[i], things[j] = things[j], things[i] })
	for _, f := range things {
		f()
	}
	for _, c := range []*corev1.PersistentVolumeClaim{
		claim("sized", new("sized"), "1Gi"), claim("has-one", new(""), "1Gi"),
		claim("asks", new("asked"), "1Gi", names("asked-for")), claim("asks-later", new("asked"), "1Gi", names("asked-for-later")),
		claim("asks-too-much", new("asked"), "2Gi", names("asked-for-later")),
		claim("loses", new("doomed"), "1Gi", names("doomed")), claim("goes", new("keep"), "1Gi", names("kept")),
		claim("goes-too", new("delete"), "1Gi", names("wasted")),
		claim("unnamed", nil, "1Gi"), claim("waits", new("slow"), "1Gi"),
	} {
		w.Create(client.PersistentVolumeClaims, c)
	}
}

func end(w *controllertest.World) string {
	few := map[corev1.PersistentVolumeClaimPhase]int{}
	lines := w.Lines(client.PersistentVolumeClaims, func(obj client.Object) string {
		c := obj.(*corev1.PersistentVolumeClaim)
		if volumes.ClaimClass(c) == "few" { // which of them is chance
			few[c.Status.Phase]++
			return ""
		}
		if c.Name == "loses" || c.Name == "goes" {
			return c.Name // bound before its volume went or not; given what the first of that name had or not
		}
		if c.Name == "sized" {
			return "sized " + string(c.Status.Phase) // by the first of its volumes that was seen
		}
		q := c.Status.Capacity[corev1.ResourceStorage]
		return fmt.Sprintf("%s %s volume=%s class=%q %s provisioner=%s", c.Name, c.Status.Phase, c.Spec.VolumeName, volumes.ClaimClass(c), q.String(), c.Annotations[volumes.StorageProvisioner])
	}) + w.Lines(client.PersistentVolumes, func(obj client.Object) string {
		v := obj.(*corev1.PersistentVolume)
		switch v.Name {
		case "kept", "wasted", "large", "little":
			return "" // released, when their claim came to be bound; one of the two
		}
		return v.Name + " " + string(v.Status.Phase)
	})
	return lines + fmt.Sprint(few)
}

// check: who is bound points at each other, and what nobody has says so.
func check(w *controllertest.World) error {
	owner := map[string]string{}
	for _, obj := range w.List(client.PersistentVolumeClaims) {
		c := obj.(*corev1.PersistentVolumeClaim)
		if c.Status.Phase != corev1.ClaimBound {
			continue
		}
		v, _ := w.Get(client.PersistentVolumes, "", c.Spec.VolumeName).(*corev1.PersistentVolume)
		if !volumes.Bound(v, c) {
			return fmt.Errorf("claim %s says that it is bound to %s, which says %+v", c.Name, c.Spec.VolumeName, v)
		}
		if had := owner[v.Name]; had != "" {
			return fmt.Errorf("claims %s and %s have one volume", had, c.Name)
		}
		owner[v.Name] = c.Name
	}
	for _, obj := range w.List(client.PersistentVolumes) {
		v := obj.(*corev1.PersistentVolume)
		if bound := v.Status.Phase == corev1.VolumeBound; bound != (owner[v.Name] != "") {
			return fmt.Errorf("volume %s is %s, its claim is %q", v.Name, v.Status.Phase, owner[v.Name])
		}
		if v.Status.Phase == corev1.VolumeAvailable && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != "" {
			return fmt.Errorf("volume %s is free and has %+v", v.Name, v.Spec.ClaimRef)
		}
	}
	return nil
}
