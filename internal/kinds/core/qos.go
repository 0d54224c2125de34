package core

import corev1 "k8s.io/api/core/v1"

// QOSClass tells how well a pod is served where resources are scarce:
// guaranteed if all it uses of CPU and memory is both requested and limited,
// best effort if none is, burstable in between.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
func QOSClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	if r := spec.Resources; r != nil && len(r.Limits)+len(r.Requests) > 0 {
		return class(usage(r))
	}
	some, all := false, true
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			used, guaranteed := usage(&list[i].Resources)
			some, all = some || used, all && guaranteed
		}
	}
	return class(some, all)
}

func class(some, all bool) corev1.PodQOSClass {
	switch {
	case !some:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// usage tells whether anything is asked for, and whether both resources are
// limited to what is requested.
func usage(r *corev1.ResourceRequirements) (some, all bool) {
	all = true
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		if request.Sign() > 0 || limit.Sign() > 0 {
			some = true
		}
		all = all && limit.Sign() > 0 && request.Cmp(limit) == 0
	}
	return some, all
}
