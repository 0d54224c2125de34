package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func BenchmarkPod(b *testing.B) {
	p := newPod(func(p *corev1.Pod) {
		p.Spec.ServiceAccountName = "default"
		c := &p.Spec.Containers[0]
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80}}
		c.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}}
	})
	b.ReportAllocs()
	for b.Loop() {
		defaultPod(p)
		if errs := validatePod(p); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

func BenchmarkConfigMap(b *testing.B) {
	cm := &corev1.ConfigMap{Data: map[string]string{"key": "value", "other.key": "value"}}
	b.ReportAllocs()
	for b.Loop() {
		if errs := validateConfigMap(cm); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
