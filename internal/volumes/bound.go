package volumes

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Completed tells whether a claim has been bound.
func Completed(c *corev1.PersistentVolumeClaim) bool {
	return metav1.HasAnnotation(c.ObjectMeta, BindCompleted)
}

// MeantFor tells whether a volume's claimRef names a claim: this very one, or
// any of its name.
func MeantFor(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Namespace == c.Namespace && ref.Name == c.Name && (ref.UID == "" || ref.UID == c.UID)
}

// Bound tells whether a claim and its volume, which may be nil, point at each
// other, for good: the claim may be used.
func Bound(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	return v != nil && c.Spec.VolumeName == v.Name && Completed(c) && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == c.UID && MeantFor(v, c)
}

// GiveTo is a copy of a volume that is a claim's.
func GiveTo(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	given := v.DeepCopy()
	if given.Spec.ClaimRef == nil {
		metav1.SetMetaDataAnnotation(&given.ObjectMeta, BoundByController, Yes)
	}
	given.Spec.ClaimRef = RefTo(c)
	return given
}

// RefTo is a claimRef.
func RefTo(c *corev1.PersistentVolumeClaim) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion}
}

// byClaimRef indexes volumes by the claim that they are a claim's or meant for.
const byClaimRef = "volumes.claimRef"

// IndexByClaimRef prepares a view of volumes for OfClaim.
func IndexByClaimRef(v client.View) {
	v.Index(byClaimRef, func(obj client.Object) []string {
		if pv, ok := obj.(*corev1.PersistentVolume); ok && pv.Spec.ClaimRef != nil {
			return []string{pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name}
		}
		return nil
	})
}

// OfClaim are the volumes whose claimRef names a claim, by namespace and name.
func OfClaim(v client.View, namespace, name string) []*corev1.PersistentVolume {
	return client.Indexed[*corev1.PersistentVolume](v, byClaimRef, namespace+"/"+name)
}

// freeByClass indexes volumes that nobody has by their class.
const freeByClass = "volumes.freeByClass"

// IndexFree prepares a view of volumes for FreeOfClass.
func IndexFree(v client.View) {
	v.Index(freeByClass, func(obj client.Object) []string {
		if pv, ok := obj.(*corev1.PersistentVolume); ok && Free(pv) {
			return []string{VolumeClass(pv)}
		}
		return nil
	})
}

// FreeOfClass are the free volumes of a class.
func FreeOfClass(v client.View, class string) []*corev1.PersistentVolume {
	return client.Indexed[*corev1.PersistentVolume](v, freeByClass, class)
}
