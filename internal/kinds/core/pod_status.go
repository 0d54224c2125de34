package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

func preparePodStatus(pod, old *corev1.Pod) {
	pod.Spec = old.Spec
	// Kubelets of old wrote wrong owners, which broke garbage collection.
	pod.OwnerReferences = old.OwnerReferences
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = old.Status.QOSClass
	}
	keepObservedGenerations(&pod.Status, &old.Status)
}

// keepObservedGenerations puts back the generations that a writer who does
// not know of them has left out. Conditions may have a type twice.
func keepObservedGenerations(now, was *corev1.PodStatus) {
	if now.ObservedGeneration == 0 {
		now.ObservedGeneration = was.ObservedGeneration
	}
	copied := false
	for i := range now.Conditions {
		if now.Conditions[i].ObservedGeneration != 0 {
			continue
		}
		nth := 0
		for j := range i {
			if now.Conditions[j].Type == now.Conditions[i].Type {
				nth++
			}
		}
		for j := range was.Conditions {
			if was.Conditions[j].Type != now.Conditions[i].Type {
				continue
			}
			if nth > 0 {
				nth--
				continue
			}
			if g := was.Conditions[j].ObservedGeneration; g != 0 {
				if !copied { // never write into what may be shared with old
					now.Conditions = append([]corev1.PodCondition(nil), now.Conditions...)
					copied = true
				}
				now.Conditions[i].ObservedGeneration = g
			}
			break
		}
	}
}

func validatePodStatus(pod, old *corev1.Pod) field.ErrorList {
	var c check.Errors
	meta, path := field.NewPath("metadata"), field.NewPath("status")
	validateAnnotationChange(&c, pod, old, meta.Child("annotations"))
	for i, condition := range pod.Status.Conditions {
		switch condition.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized:
		default:
			c.Qualified(meta.Child("conditions").Index(i), "Type", string(condition.Type)) // the path is upstream's
		}
	}
	if name := pod.Status.NominatedNodeName; name != "" && name != old.Status.NominatedNodeName {
		c.Subdomain(path, "nominatedNodeName", name)
	}
	if pod.Status.QOSClass != old.Status.QOSClass {
		c.Immutable(path, "qosClass", pod.Status.QOSClass)
	}
	staysEnded(&c, pod.Status.ContainerStatuses, old.Status.ContainerStatuses, path.Child("containerStatuses"), &old.Spec, old.Spec.Containers)
	staysEnded(&c, pod.Status.InitContainerStatuses, old.Status.InitContainerStatuses, path.Child("initContainerStatuses"), &old.Spec, old.Spec.InitContainers)
	staysEnded(&c, pod.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses, path.Child("ephemeralContainerStatuses"), &corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, nil)
	validateClaimStatuses(&c, pod, path.Child("resourceClaimStatuses"))
	validatePodIPs(&c, pod, old, path)
	validateHostIPs(&c, pod, old, path)
	return c.List
}

// staysEnded refuses that a container which ended for good runs again.
func staysEnded(c *check.Errors, now, was []corev1.ContainerStatus, path *field.Path, spec *corev1.PodSpec, list []corev1.Container) {
	if spec.RestartPolicy == corev1.RestartPolicyAlways {
		return
	}
	for i := range was {
		ended := was[i].State.Terminated
		if ended == nil || restarts(spec.RestartPolicy, ended.ExitCode, was[i].Name, list) {
			continue
		}
		for j := range now {
			if now[j].Name == was[i].Name && now[j].State.Terminated == nil {
				c.Forbidden(path.Index(i), "state", "may not be transitioned to non-terminated state")
			}
		}
	}
}

// restarts tells whether a container that ended is to run again.
func restarts(policy corev1.RestartPolicy, code int32, name string, list []corev1.Container) bool {
	for i := range list {
		if list[i].Name != name {
			continue
		}
		if len(list[i].RestartPolicyRules) > 0 {
			return true // which rule applies is the kubelet's to say
		}
		if own := list[i].RestartPolicy; own != nil {
			policy = corev1.RestartPolicy(*own)
		}
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

func validateClaimStatuses(c *check.Errors, pod *corev1.Pod, path *field.Path) {
	var names check.Unique[string]
	for i, status := range pod.Status.ResourceClaimStatuses {
		p, found := path.Index(i), false
		for j := range pod.Spec.ResourceClaims {
			found = found || pod.Spec.ResourceClaims[j].Name == status.Name
		}
		if !found {
			c.Invalid(p, "name", status.Name, "must match the name of an entry in `spec.resourceClaims`")
		}
		if names.Seen(status.Name) {
			c.Duplicate(p, "name", status.Name)
		}
		if status.ResourceClaimName != nil {
			c.Subdomain(p, "name", *status.ResourceClaimName)
		}
	}
}

// onePerFamily wants at most one address of IPv4 and one of IPv6.
func onePerFamily(c *check.Errors, path *field.Path, name string, ips []string, value any) {
	if len(ips) < 2 {
		return
	}
	if dual, err := netutils.IsDualStackIPStrings(ips); err != nil || !dual || len(ips) > 2 {
		c.Invalid(path, name, value, "may specify no more than one IP for each IP family")
	}
	for i := range ips {
		for j := range i {
			if ips[j] == ips[i] {
				c.Duplicate(path.Child(name).Index(i), "", ips[i])
				break
			}
		}
	}
}

func validatePodIPs(c *check.Errors, pod, old *corev1.Pod, path *field.Path) {
	var before, ips []string
	for _, ip := range old.Status.PodIPs {
		before = append(before, ip.IP)
	}
	for i, ip := range pod.Status.PodIPs {
		c.Add(validation.IsValidIPForLegacyField(path.Child("podIPs").Index(i), ip.IP, true, before))
		ips = append(ips, ip.IP)
	}
	onePerFamily(c, path, "podIPs", ips, pod.Status.PodIPs)
}

func validateHostIPs(c *check.Errors, pod, old *corev1.Pod, path *field.Path) {
	var before, ips []string
	for _, ip := range old.Status.HostIPs {
		before = append(before, ip.IP)
	}
	for i, ip := range pod.Status.HostIPs {
		if i == 0 && ip.IP != pod.Status.HostIP {
			c.Invalid(path.Child("hostIPs").Index(0), "ip", ip.IP, "must be equal to `hostIP`")
		}
		c.Add(validation.IsValidIPForLegacyField(path.Child("hostIPs").Index(i), ip.IP, true, before))
		ips = append(ips, ip.IP)
	}
	onePerFamily(c, path, "hostIPs", ips, pod.Status.HostIPs)
}
