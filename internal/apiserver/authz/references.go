package authz

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// names tells whether a pod names the object that a asks for.
func (n *Nodes) names(pod *corev1.Pod, a *Attributes) bool {
	if a.Resource == "persistentvolumes" {
		return n.VolumeOf != nil && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			claim := claimOf(pod, &v)
			return claim != "" && n.VolumeOf(pod.Namespace, claim) == a.Name
		})
	}
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
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return claimOf(pod, &v) == a.Name })
	}
	return false
}

func claimOf(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
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
