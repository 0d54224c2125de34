// Package quota tells what objects use of the resources that a ResourceQuota
// limits, and which quotas are about an object. It is pure; the admission
// plugin and the loop that keeps the status stand on it, so that both count
// alike.
//
// See https://kubernetes.io/docs/concepts/policy/resource-quotas/.
package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	resourcehelper "k8s.io/component-helpers/resource"
)

const (
	countPrefix    = "count/"
	requestsPrefix = "requests."
	limitsPrefix   = "limits."
	// classInfix parts a storage class from what is limited of it.
	classInfix = ".storageclass.storage.k8s.io/"
)

// countOf names the number of objects of a resource: "count/jobs.batch".
func countOf(res schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName(countPrefix + res.String())
}

// Counted is the resource whose objects a name counts.
func Counted(name corev1.ResourceName) (res schema.GroupResource, ok bool) {
	if text, isCount := strings.CutPrefix(string(name), countPrefix); isCount {
		return schema.ParseGroupResource(text), true
	}
	switch name {
	case corev1.ResourceConfigMaps, corev1.ResourceSecrets, corev1.ResourceReplicationControllers, corev1.ResourceQuotas,
		corev1.ResourceServices, corev1.ResourcePersistentVolumeClaims, corev1.ResourcePods:
		return schema.GroupResource{Resource: string(name)}, true
	case corev1.ResourceServicesLoadBalancers, corev1.ResourceServicesNodePorts:
		return schema.GroupResource{Resource: "services"}, true
	}
	if name == corev1.ResourceRequestsStorage || strings.Contains(string(name), classInfix) {
		return schema.GroupResource{Resource: "persistentvolumeclaims"}, true
	}
	if IsCompute(name) {
		return schema.GroupResource{Resource: "pods"}, true
	}
	return res, false
}

// IsCompute tells whether a name is about what the containers of pods ask for.
func IsCompute(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	s := string(name)
	return name != corev1.ResourceRequestsStorage && !strings.Contains(s, classInfix) &&
		(strings.HasPrefix(s, requestsPrefix) || strings.HasPrefix(s, limitsPrefix) || strings.HasPrefix(s, corev1.ResourceHugePagesPrefix))
}

// Usage is what an object uses, by the names that quotas have for it.
func Usage(res schema.GroupResource, obj metav1.Object, now time.Time) corev1.ResourceList {
	one := resource.MustParse("1")
	used := corev1.ResourceList{countOf(res): one}
	if res.Group != "" {
		return used
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		if runs(o, now) {
			addPod(used, o)
		}
	case *corev1.Service:
		used[corev1.ResourceServices] = one
		addService(used, o)
	case *corev1.PersistentVolumeClaim:
		addClaim(used, o)
	default:
		switch name := corev1.ResourceName(res.Resource); name {
		case corev1.ResourceConfigMaps, corev1.ResourceSecrets, corev1.ResourceReplicationControllers, corev1.ResourceQuotas:
			used[name] = one
		}
	}
	return used
}

// runs tells whether a pod still uses anything: not when it has ended, nor when
// its time to end is over.
func runs(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	// deletionTimestamp is when the grace period ends.
	return pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil || !now.After(pod.DeletionTimestamp.Time)
}

func addPod(used corev1.ResourceList, pod *corev1.Pod) {
	used[corev1.ResourcePods] = resource.MustParse("1")
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		switch {
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			used[name] = q
		}
		used[requestsPrefix+name] = q
	}
	for name, q := range resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}) {
		used[limitsPrefix+name] = q
	}
}

func addService(used corev1.ResourceList, svc *corev1.Service) {
	ports := len(svc.Spec.Ports)
	switch svc.Spec.Type {
	case corev1.ServiceTypeNodePort:
	case corev1.ServiceTypeLoadBalancer:
		used[corev1.ResourceServicesLoadBalancers] = resource.MustParse("1")
		if a := svc.Spec.AllocateLoadBalancerNodePorts; a != nil && !*a {
			ports = 0
			for _, p := range svc.Spec.Ports {
				if p.NodePort != 0 {
					ports++
				}
			}
		}
	default:
		return
	}
	used[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(int64(ports), resource.DecimalSI)
}

func addClaim(used corev1.ResourceList, claim *corev1.PersistentVolumeClaim) {
	one := resource.MustParse("1")
	used[corev1.ResourcePersistentVolumeClaims] = one
	class := claim.Annotations[corev1.BetaStorageClassAnnotation]
	if class == "" && claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	if class != "" {
		used[corev1.ResourceName(class+classInfix+string(corev1.ResourcePersistentVolumeClaims))] = one
	}
	storage, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return
	}
	if had, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && had.Cmp(storage) > 0 {
		storage = had
	}
	used[corev1.ResourceRequestsStorage] = storage
	if class != "" {
		used[corev1.ResourceName(class+classInfix+string(corev1.ResourceRequestsStorage))] = storage
	}
}

// Add sums two lists up.
func Add(a, b corev1.ResourceList) corev1.ResourceList {
	sum := a.DeepCopy()
	if sum == nil {
		sum = corev1.ResourceList{}
	}
	for name, q := range b {
		had := sum[name]
		had.Add(q)
		sum[name] = had
	}
	return sum
}

// Sub is what a has more than b, less where it has less.
func Sub(a, b corev1.ResourceList) corev1.ResourceList {
	rest := a.DeepCopy()
	if rest == nil {
		rest = corev1.ResourceList{}
	}
	for name, q := range b {
		had := rest[name]
		had.Sub(q)
		rest[name] = had
	}
	return rest
}

// Only keeps the names of another list.
func Only(a, names corev1.ResourceList) corev1.ResourceList {
	kept := corev1.ResourceList{}
	for name, q := range a {
		if _, ok := names[name]; ok {
			kept[name] = q
		}
	}
	return kept
}
