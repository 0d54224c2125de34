package volumes

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// ClaimOf is the name of the claim behind a pod's volume, "" when it has none.
func ClaimOf(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return EphemeralClaim(pod.Name, v.Name)
	}
	return ""
}

// EphemeralClaim is the name of the claim of a pod's own volume.
//
// https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming
func EphemeralClaim(pod, volume string) string { return pod + "-" + volume }

// Owned tells whether a claim was made for a pod's own volume, and not by
// chance has its name.
func Owned(c *corev1.PersistentVolumeClaim, pod *corev1.Pod) bool {
	return metav1.IsControlledBy(c, pod)
}

// byClaim indexes pods by the claims they use.
const byClaim = "volumes.claim"

// IndexPodsByClaim prepares a view of pods for PodsOf.
func IndexPodsByClaim(v client.View) {
	v.Index(byClaim, func(obj client.Object) []string {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil
		}
		var names []string
		for i := range pod.Spec.Volumes {
			if name := ClaimOf(pod, &pod.Spec.Volumes[i]); name != "" {
				names = append(names, pod.Namespace+"/"+name)
			}
		}
		return names
	})
}

// PodsOf are the pods that use a claim.
func PodsOf(v client.View, namespace, claim string) []*corev1.Pod {
	return client.Indexed[*corev1.Pod](v, byClaim, namespace+"/"+claim)
}
