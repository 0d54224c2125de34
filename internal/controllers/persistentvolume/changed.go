package persistentvolume

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

const (
	// ofVolume indexes claims by the volume they name.
	ofVolume = "persistentvolume.ofVolume"
	// pending indexes claims that name no volume by their class, those that
	// name no class under unnamed as well.
	pending = "persistentvolume.pending"
	unnamed = "\x00"
	// defaults indexes classes that are marked as the default.
	defaults = "persistentvolume.defaults"
)

func indexClaims(v client.View) {
	v.Index(ofVolume, func(obj client.Object) []string {
		if c, ok := obj.(*corev1.PersistentVolumeClaim); ok && c.Spec.VolumeName != "" {
			return []string{c.Spec.VolumeName}
		}
		return nil
	})
	v.Index(pending, func(obj client.Object) []string {
		c, ok := obj.(*corev1.PersistentVolumeClaim)
		switch {
		case !ok || c.Spec.VolumeName != "" || volumes.Completed(c):
			return nil
		case !volumes.NamesClass(c):
			return []string{"", unnamed}
		}
		return []string{volumes.ClaimClass(c)}
	})
}

func indexDefaults(v client.View) {
	v.Index(defaults, func(obj client.Object) []string {
		if class, ok := obj.(*storagev1.StorageClass); ok && volumes.Default(class) {
			return []string{volumes.Yes}
		}
		return nil
	})
}

func volumeKey(name string) loop.Key { return loop.Key{Name: name} }

// claimChanged looks at the claim and at the volumes that it has to do with.
func (c *Controller) claimChanged(old, new client.Object) {
	obj := controllers.Present(old, new)
	c.Look(controllers.KeyOf(obj))
	for _, o := range []client.Object{old, new} {
		if claim, ok := o.(*corev1.PersistentVolumeClaim); ok && claim.Spec.VolumeName != "" {
			c.Look(volumeKey(claim.Spec.VolumeName))
		}
	}
	for _, v := range volumes.OfClaim(c.volumes, obj.GetNamespace(), obj.GetName()) {
		c.Look(volumeKey(v.Name))
	}
}

// volumeChanged looks at the volume, at the claims that it has to do with and,
// when it is free now and was not, at those that it satisfies.
func (c *Controller) volumeChanged(old, new client.Object) {
	name := controllers.Present(old, new).GetName()
	c.Look(volumeKey(name))
	for _, o := range []client.Object{old, new} {
		if v, ok := o.(*corev1.PersistentVolume); ok && v.Spec.ClaimRef != nil {
			c.Look(loop.Key{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name})
		}
	}
	for _, claim := range c.claims.ByIndex(ofVolume, name) {
		c.Look(controllers.KeyOf(claim))
	}
	v, ok := new.(*corev1.PersistentVolume)
	if !ok || !volumes.Free(v) {
		return
	}
	for _, claim := range client.Indexed[*corev1.PersistentVolumeClaim](c.claims, pending, volumes.VolumeClass(v)) {
		if volumes.Unfit(v, claim) == "" && volumes.Selects(claim, v) {
			c.Look(controllers.KeyOf(claim))
		}
	}
}

// classChanged looks at the claims that wait for a class.
func (c *Controller) classChanged(_, new client.Object) {
	class, ok := new.(*storagev1.StorageClass)
	if !ok {
		return
	}
	waiting := c.claims.ByIndex(pending, class.Name)
	if volumes.Default(class) {
		waiting = append(waiting, c.claims.ByIndex(pending, unnamed)...)
	}
	for _, claim := range waiting {
		c.Look(controllers.KeyOf(claim))
	}
}

// podChanged looks at the unbound claims of a pod that has come, gone or found
// its node: they say which pod they wait for.
func (c *Controller) podChanged(old, new client.Object) {
	pod, ok := controllers.Present(old, new).(*corev1.Pod)
	if !ok || len(pod.Spec.Volumes) == 0 {
		return
	}
	if before, ok := old.(*corev1.Pod); ok && new != nil && before.Spec.NodeName == pod.Spec.NodeName {
		return
	}
	for i := range pod.Spec.Volumes {
		name := volumes.ClaimOf(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		if claim := client.In[*corev1.PersistentVolumeClaim](c.claims, pod.Namespace, name); claim != nil && !volumes.Completed(claim) {
			c.Look(loop.Key{Namespace: pod.Namespace, Name: name})
		}
	}
}
