package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The views pods/ephemeralcontainers and pods/resize.

// keepPodMeta: these views change the spec only.
func keepPodMeta(pod, old *corev1.Pod) {
	pod.Labels, pod.Annotations = old.Labels, old.Annotations
	pod.Finalizers, pod.OwnerReferences = old.Finalizers, old.OwnerReferences
	pod.Status = old.Status
}

func prepareEphemeralContainers(pod, old *corev1.Pod) {
	added := pod.Spec.EphemeralContainers
	pod.Spec = old.Spec
	pod.Spec.EphemeralContainers = added
	keepPodMeta(pod, old)
}

func validateEphemeralContainersUpdate(pod, old *corev1.Pod) field.ErrorList {
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	s := wholePod(pod)
	path := field.NewPath("spec", "ephemeralContainers")
	for i := range old.Spec.EphemeralContainers {
		was := &old.Spec.EphemeralContainers[i]
		var now *corev1.EphemeralContainer
		for j := range pod.Spec.EphemeralContainers {
			if pod.Spec.EphemeralContainers[j].Name == was.Name {
				now = &pod.Spec.EphemeralContainers[j]
			}
		}
		switch {
		case now == nil:
			s.Forbidden(path, "", fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name))
		case !apiequality.Semantic.DeepEqual(was, now):
			s.Forbidden(path, "", fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, diff.Diff(*was, *now)))
		}
	}
	return s.List
}

// prepareResize keeps all but resources and resize policies. Where containers
// came, went or changed their places it keeps nothing: validation refuses that.
func prepareResize(pod, old *corev1.Pod) {
	main, ok1 := resized(pod.Spec.Containers, old.Spec.Containers)
	init, ok2 := resized(pod.Spec.InitContainers, old.Spec.InitContainers)
	if !ok1 || !ok2 {
		return
	}
	whole := pod.Spec.Resources
	pod.Spec = old.Spec
	pod.Spec.Containers, pod.Spec.InitContainers, pod.Spec.Resources = main, init, whole
	keepPodMeta(pod, old)
}

func resized(now, was []corev1.Container) ([]corev1.Container, bool) {
	if len(now) != len(was) {
		return nil, false
	}
	if len(was) == 0 {
		return was, true
	}
	out := append([]corev1.Container(nil), was...)
	for i := range now {
		if now[i].Name != was[i].Name {
			return nil, false
		}
		out[i].Resources, out[i].ResizePolicy = now[i].Resources, now[i].ResizePolicy
	}
	return out, true
}

func validateResize(pod, old *corev1.Pod) field.ErrorList {
	refuse := func(detail string) field.ErrorList {
		return field.ErrorList{field.Forbidden(field.NewPath(""), detail)}
	}
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return refuse("static pods cannot be resized")
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return refuse("windows pods cannot be resized")
	}
	s := wholePod(pod)
	path := field.NewPath("spec")
	if len(pod.Spec.Containers) != len(old.Spec.Containers) || len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		s.Forbidden(path, "", "only cpu and memory resources are mutable")
		return s.List
	}
	if QOSClass(&old.Spec) != QOSClass(&pod.Spec) {
		s.Invalid(path, "", old.Status.QOSClass, "Pod QOS Class may not change as a result of resizing")
	}
	for i := range old.Spec.InitContainers {
		now, was := &pod.Spec.InitContainers[i], &old.Spec.InitContainers[i]
		if sidecar(was) {
			s.containerResized(now, was, path.Child("initContainers").Index(i).Child("resources"))
			s.onlyComputeChanged(now, was, path, "only cpu and memory resources for sidecar containers are mutable")
		} else if !apiequality.Semantic.DeepEqual(now, was) {
			s.Forbidden(path, "", "resources for non-sidecar init containers are immutable")
		}
	}
	for i := range old.Spec.Containers {
		now, was := &pod.Spec.Containers[i], &old.Spec.Containers[i]
		s.containerResized(now, was, path.Child("containers").Index(i).Child("resources"))
		s.onlyComputeChanged(now, was, path, "only cpu and memory resources are mutable")
	}
	return s.List
}

func (s *specCheck) containerResized(now, was *corev1.Container, path *field.Path) {
	if removed(now.Resources.Requests, was.Resources.Requests) {
		s.Forbidden(path, "requests", "resource requests cannot be removed")
	}
	if removed(now.Resources.Limits, was.Resources.Limits) {
		s.Forbidden(path, "limits", "resource limits cannot be removed")
	}
}

func removed(now, was corev1.ResourceList) bool {
	for name := range was {
		if _, ok := now[name]; !ok {
			return true
		}
	}
	return false
}

// onlyComputeChanged compares containers with CPU and memory made equal.
func (s *specCheck) onlyComputeChanged(now, was *corev1.Container, path *field.Path, detail string) {
	c := now.DeepCopy()
	c.ResizePolicy = was.ResizePolicy
	c.Resources.Limits = withCompute(c.Resources.Limits, was.Resources.Limits)
	c.Resources.Requests = withCompute(c.Resources.Requests, was.Resources.Requests)
	if !apiequality.Semantic.DeepEqual(c, was) {
		s.Forbidden(path, "", detail)
	}
}

func withCompute(list, from corev1.ResourceList) corev1.ResourceList {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		delete(list, name)
		if q, ok := from[name]; ok {
			if list == nil {
				list = corev1.ResourceList{}
			}
			list[name] = q
		}
	}
	return list
}
