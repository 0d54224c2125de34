package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodTemplateWarnings warns of what is deprecated or cannot mean what it says
// in a template. old is nil on create.
func PodTemplateWarnings(template, old *corev1.PodTemplateSpec, path *field.Path) []string {
	if old != nil {
		return nil
	}
	return podSpecWarnings(&template.Spec, path.Child("spec"))
}

// WorkloadWarnings warns of the template of a kind that makes pods, and of the
// kind's name, which becomes a part of theirs.
func WorkloadWarnings(name string, template, old *corev1.PodTemplateSpec, path *field.Path) []string {
	var out []string
	if old == nil {
		if bad := validation.IsDNS1123Label(name); len(bad) > 0 {
			out = append(out, fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", bad))
		}
	}
	return append(out, PodTemplateWarnings(template, old, path)...)
}

// podSpecWarnings with paths below path; nil is a pod's own spec.
func podSpecWarnings(spec *corev1.PodSpec, path *field.Path) []string {
	var out []string
	if path == nil {
		path = field.NewPath("spec")
	}
	warn := func(p *field.Path, format string, args ...any) {
		out = append(out, p.String()+": "+fmt.Sprintf(format, args...))
	}
	for key, instead := range deprecatedNodeLabels {
		if _, ok := spec.NodeSelector[key]; ok {
			warn(path.Child("nodeSelector").Key(key), "deprecated since %s; use %q instead", instead.since, instead.label)
		}
	}
	for i, alias := range spec.HostAliases {
		for j := range i {
			if spec.HostAliases[j].IP == alias.IP {
				warn(path.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", alias.IP)
				break
			}
		}
		out = append(out, AddressWarnings(path.Child("hostAliases").Index(i).Child("ip"), alias.IP)...)
	}
	if spec.DNSConfig != nil {
		for i, server := range spec.DNSConfig.Nameservers {
			out = append(out, AddressWarnings(path.Child("dnsConfig", "nameservers").Index(i), server)...)
		}
	}
	for i := range spec.Volumes {
		warnVolume(&spec.Volumes[i].VolumeSource, path.Child("volumes").Index(i), warn)
	}
	for i, ref := range spec.ImagePullSecrets {
		if ref.Name == "" {
			warn(path.Child("imagePullSecrets").Index(i), "invalid empty name %q", "")
		}
	}
	containers(spec, path, func(c *corev1.Container, path *field.Path) {
		for i := range c.Env {
			for j := i + 1; j < len(c.Env) && len(c.Env) < 256; j++ {
				if c.Env[i].Name == c.Env[j].Name {
					warn(path.Child("env").Index(j), "hides previous definition of %q, which may be dropped when using apply", c.Env[j].Name)
				}
			}
		}
	})
	if g := spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		warn(path.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	return out
}

// deprecatedNodeLabels are labels of nodes that have another name now.
var deprecatedNodeLabels = map[string]struct{ since, label string }{
	"beta.kubernetes.io/os":                                   {"v1.14", "kubernetes.io/os"},
	"beta.kubernetes.io/arch":                                 {"v1.14", "kubernetes.io/arch"},
	"beta.kubernetes.io/instance-type":                        {"v1.17", "node.kubernetes.io/instance-type"},
	"failure-domain.beta.kubernetes.io/zone":                  {"v1.17", "topology.kubernetes.io/zone"},
	"failure-domain.beta.kubernetes.io/region":                {"v1.17", "topology.kubernetes.io/region"},
	"node.kubernetes.io/exclude-disruption":                   {"v1.19", "node.kubernetes.io/exclude-from-external-load-balancers"},
	"alpha.service-controller.kubernetes.io/exclude-balancer": {"v1.19", "node.kubernetes.io/exclude-from-external-load-balancers"},
}

func warnVolume(v *corev1.VolumeSource, path *field.Path, warn func(*field.Path, string, ...any)) {
	switch {
	case v.GitRepo != nil:
		warn(path.Child("gitRepo"), "deprecated in v1.11, and disabled by default in v1.33+")
	case v.Glusterfs != nil:
		warn(path.Child("glusterfs"), "deprecated in v1.25, non-functional in v1.26+")
	case v.ScaleIO != nil:
		warn(path.Child("scaleIO"), "deprecated in v1.16, non-functional in v1.22+")
	case v.Flocker != nil:
		warn(path.Child("flocker"), "deprecated in v1.22, non-functional in v1.25+")
	case v.StorageOS != nil:
		warn(path.Child("storageOS"), "deprecated in v1.22, non-functional in v1.25+")
	case v.Quobyte != nil:
		warn(path.Child("quobyte"), "deprecated in v1.22, non-functional in v1.25+")
	case v.PhotonPersistentDisk != nil:
		warn(path.Child("photonPersistentDisk"), "deprecated in v1.11, non-functional in v1.16+")
	case v.CephFS != nil:
		warn(path.Child("cephfs"), "deprecated in v1.28, non-functional in v1.31+")
	case v.RBD != nil:
		warn(path.Child("rbd"), "deprecated in v1.28, non-functional in v1.31+")
	}
}
