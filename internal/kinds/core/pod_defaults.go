package core

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

func defaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	for i := range spec.Containers {
		requestLimits(&spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		requestLimits(&spec.InitContainers[i].Resources)
	}
	if spec.Resources != nil {
		defaultPodResources(pod)
	}
	if spec.EnableServiceLinks == nil {
		spec.EnableServiceLinks = new(corev1.DefaultEnableServiceLinks)
	}
	if spec.HostNetwork {
		hostPorts(spec.Containers)
		hostPorts(spec.InitContainers)
	}
	defaultPodSpec(spec)
	for i := range pod.Status.ContainerStatuses {
		roundUp(pod.Status.ContainerStatuses[i].AllocatedResources)
	}
}

// requestLimits: what is limited and not requested is requested up to its limit.
func requestLimits(r *corev1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = make(corev1.ResourceList, len(r.Limits))
	}
	addMissing(r.Requests, r.Limits, func(corev1.ResourceName) bool { return true })
}

func addMissing(to, from corev1.ResourceList, wanted func(corev1.ResourceName) bool) {
	for name, q := range from {
		if _, ok := to[name]; !ok && wanted(name) {
			to[name] = q.DeepCopy()
		}
	}
}

// hostPorts: on the host's network every port is one of the host.
func hostPorts(list []corev1.Container) {
	for i := range list {
		for j := range list[i].Ports {
			if p := &list[i].Ports[j]; p.HostPort == 0 {
				p.HostPort = p.ContainerPort
			}
		}
	}
}

// defaultPodResources completes what a whole pod may use by what its
// containers do.
// https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/
func defaultPodResources(pod *corev1.Pod) {
	r := pod.Spec.Resources
	supported := resourcehelper.IsSupportedPodLevelResource
	if len(r.Limits)+len(r.Requests) > 0 {
		limits := resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{})
		r.Limits = completed(r.Limits, limits, func(name corev1.ResourceName) bool {
			_, requested := r.Requests[name]
			return hugePages(name) && supported(name) && !requested
		})
	}
	if len(r.Limits) > 0 {
		requests := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
		r.Requests = completed(r.Requests, requests, func(name corev1.ResourceName) bool { return supported(name) && overcommits(name) })
		r.Requests = completed(r.Requests, r.Limits, supported)
	}
	if resourcehelper.IsPodLevelRequestsSet(pod) && !resourcehelper.IsPodLevelLimitsSet(pod) {
		limits := resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{})
		r.Limits = completed(r.Limits, limits, func(name corev1.ResourceName) bool {
			return supported(name) && overcommits(name) && allLimited(&pod.Spec, name)
		})
	}
}

// completed returns list with what is wanted of from; list itself if that is
// nothing.
func completed(list, from corev1.ResourceList, wanted func(corev1.ResourceName) bool) corev1.ResourceList {
	out := maps.Clone(list)
	if out == nil {
		out = corev1.ResourceList{}
	}
	addMissing(out, from, wanted)
	if len(out) == len(list) {
		return list
	}
	return out
}

func allLimited(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			if _, ok := list[i].Resources.Limits[name]; !ok {
				return false
			}
		}
	}
	return true
}
