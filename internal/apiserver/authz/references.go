package authz

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/volumes"
)

// names tells whether a pod names the object that a asks for.
func (n *Nodes) names(pod *corev1.Pod, a *Attributes) bool {
	if pod.Namespace != a.Namespace {
		return false
	}
	switch a.Resource {
	case "serviceaccounts":
		return pod.Spec.ServiceAccountName == a.Name
	case "secrets":
		return namesSecret(&pod.Spec, a.Name)
	case "configmaps":
		return namesConfigMap(&pod.Spec, a.Name)
	case "persistentvolumeclaims":
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return volumes.ClaimOf(pod, &v) == a.Name })
	case "resourceclaims":
		return slices.ContainsFunc(pod.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool {
			return c.ResourceClaimName != nil && *c.ResourceClaimName == a.Name
		}) || slices.ContainsFunc(pod.Status.ResourceClaimStatuses, func(c corev1.PodResourceClaimStatus) bool {
			return c.ResourceClaimName != nil && *c.ResourceClaimName == a.Name
		})
	}
	return false
}

// volumeNames tells whether the driver of a volume that a pod claims needs, on
// the node, the secret that a asks for.
func (n *Nodes) volumeNames(pod *corev1.Pod, a *Attributes) bool {
	if n.VolumeOf == nil {
		return false
	}
	is := func(ref *corev1.SecretReference) bool {
		return ref != nil && ref.Namespace == a.Namespace && ref.Name == a.Name
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		claim := volumes.ClaimOf(pod, &v)
		if claim == "" {
			return false
		}
		pv := n.VolumeOf(pod.Namespace, claim)
		if pv == nil || pv.Spec.CSI == nil {
			return false
		}
		csi := pv.Spec.CSI
		return is(csi.NodeStageSecretRef) || is(csi.NodePublishSecretRef) || is(csi.NodeExpandSecretRef)
	})
}

// environments calls f with the environment of every container, until it
// returns true.
func environments(spec *corev1.PodSpec, f func([]corev1.EnvVar, []corev1.EnvFromSource) bool) bool {
	for i := range spec.InitContainers {
		if f(spec.InitContainers[i].Env, spec.InitContainers[i].EnvFrom) {
			return true
		}
	}
	for i := range spec.Containers {
		if f(spec.Containers[i].Env, spec.Containers[i].EnvFrom) {
			return true
		}
	}
	for i := range spec.EphemeralContainers {
		if f(spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom) {
			return true
		}
	}
	return false
}

func namesSecret(spec *corev1.PodSpec, name string) bool {
	for _, s := range spec.ImagePullSecrets {
		if s.Name == name {
			return true
		}
	}
	for i := range spec.Volumes {
		if volumeNamesSecret(&spec.Volumes[i].VolumeSource, name) {
			return true
		}
	}
	return environments(spec, func(env []corev1.EnvVar, from []corev1.EnvFromSource) bool {
		for _, e := range env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name == name {
				return true
			}
		}
		for _, f := range from {
			if f.SecretRef != nil && f.SecretRef.Name == name {
				return true
			}
		}
		return false
	})
}

func volumeNamesSecret(v *corev1.VolumeSource, name string) bool {
	local := func(ref *corev1.LocalObjectReference) bool { return ref != nil && ref.Name == name }
	switch {
	case v.Secret != nil:
		return v.Secret.SecretName == name
	case v.Projected != nil:
		return slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.Secret != nil && s.Secret.Name == name
		})
	case v.CSI != nil:
		return local(v.CSI.NodePublishSecretRef)
	case v.ISCSI != nil:
		return local(v.ISCSI.SecretRef)
	case v.FlexVolume != nil:
		return local(v.FlexVolume.SecretRef)
	case v.CephFS != nil:
		return local(v.CephFS.SecretRef)
	case v.RBD != nil:
		return local(v.RBD.SecretRef)
	case v.AzureFile != nil:
		return v.AzureFile.SecretName == name
	}
	return false
}

func namesConfigMap(spec *corev1.PodSpec, name string) bool {
	for i := range spec.Volumes {
		v := &spec.Volumes[i].VolumeSource
		if v.ConfigMap != nil && v.ConfigMap.Name == name {
			return true
		}
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ConfigMap != nil && s.ConfigMap.Name == name
		}) {
			return true
		}
	}
	return environments(spec, func(env []corev1.EnvVar, from []corev1.EnvFromSource) bool {
		for _, e := range env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil && e.ValueFrom.ConfigMapKeyRef.Name == name {
				return true
			}
		}
		for _, f := range from {
			if f.ConfigMapRef != nil && f.ConfigMapRef.Name == name {
				return true
			}
		}
		return false
	})
}
