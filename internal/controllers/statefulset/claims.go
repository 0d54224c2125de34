package statefulset

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func claimName(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, n int) string {
	return fmt.Sprintf("%s-%s-%d", template.Name, set.Name, n)
}

// claims makes the claims of an ordinal that are missing, or, with owners,
// sees to it that they have those that the retention policy wants. pod is the
// ordinal's, nil when it is not there.
func (w *world) claims(n int, pod *corev1.Pod, owners bool) step {
	for i := range w.set.Spec.VolumeClaimTemplates {
		t := &w.set.Spec.VolumeClaimTemplates[i]
		name := claimName(w.set, t, n)
		there := w.claim(name)
		switch {
		case owners && there == nil:
		case owners:
			if changed := w.withOwners(there, n, pod); changed != nil {
				return step{updateClaim: changed, what: "gave claim " + name + " the owners of its retention policy"}
			}
		case there == nil:
			return step{createClaim: w.newClaim(t, name, n), what: "created claim " + name}
		case there.DeletionTimestamp != nil:
			return step{on: "PersistentVolumeClaim " + there.Namespace + "/" + name, wait: "it is being deleted"}
		case w.stale(there, n):
			return step{on: "PersistentVolumeClaim " + there.Namespace + "/" + name, wait: "it is to be deleted with a pod that is gone"}
		}
	}
	return step{}
}

func (w *world) newClaim(t *corev1.PersistentVolumeClaim, name string, n int) *corev1.PersistentVolumeClaim {
	claim := t.DeepCopy()
	claim.ObjectMeta = metav1.ObjectMeta{
		Name: name, Namespace: w.set.Namespace,
		Labels: maps.Clone(t.Labels), Annotations: maps.Clone(t.Annotations),
	}
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	if w.set.Spec.Selector != nil {
		maps.Copy(claim.Labels, w.set.Spec.Selector.MatchLabels)
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{}
	if changed := w.withOwners(claim, n, nil); changed != nil {
		return changed
	}
	return claim
}

// stale tells whether a claim goes with a pod of the ordinal that was there
// before.
func (w *world) stale(claim *corev1.PersistentVolumeClaim, n int) bool {
	name := fmt.Sprintf("%s-%d", w.set.Name, n)
	for _, ref := range claim.OwnerReferences {
		if ref.Kind == "Pod" && ref.Name == name && !slices.ContainsFunc(w.pods, func(p *corev1.Pod) bool { return p.UID == ref.UID }) {
			return true
		}
	}
	return false
}

// withOwners is a claim with the owners that the retention policy wants, nil
// when it has them. A claim goes with the set, or, of a place that was taken
// away, with the pod.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#persistentvolumeclaim-retention.
func (w *world) withOwners(claim *corev1.PersistentVolumeClaim, n int, pod *corev1.Pod) *corev1.PersistentVolumeClaim {
	whenDeleted, whenScaled := w.retention()
	condemned := n < w.start() || n >= w.start()+int(*w.set.Spec.Replicas)
	podOwns := condemned && whenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	setOwns := !podOwns && whenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType

	podName := fmt.Sprintf("%s-%d", w.set.Name, n)
	kept := slices.DeleteFunc(slices.Clone(claim.OwnerReferences), func(ref metav1.OwnerReference) bool {
		return ref.Kind == kind.Kind && ref.Name == w.set.Name || ref.Kind == "Pod" && ref.Name == podName
	})
	if (setOwns || podOwns) && slices.ContainsFunc(kept, func(ref metav1.OwnerReference) bool { return ref.Controller != nil && *ref.Controller }) {
		return nil // it is somebody else's
	}
	if setOwns {
		kept = append(kept, *metav1.NewControllerRef(w.set, kind))
	}
	if podOwns && pod != nil {
		kept = append(kept, *metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod")))
	}
	if slices.EqualFunc(kept, claim.OwnerReferences, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) {
		return nil
	}
	changed := claim.DeepCopy()
	changed.OwnerReferences = kept
	return changed
}

func (w *world) retention() (whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) {
	whenDeleted, whenScaled = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	if p := w.set.Spec.PersistentVolumeClaimRetentionPolicy; p != nil {
		if p.WhenDeleted != "" {
			whenDeleted = p.WhenDeleted
		}
		if p.WhenScaled != "" {
			whenScaled = p.WhenScaled
		}
	}
	return whenDeleted, whenScaled
}
