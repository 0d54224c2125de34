package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultPodTemplateSpec fills in a template, for all kinds that have one.
func DefaultPodTemplateSpec(template *corev1.PodTemplateSpec) { defaultPodSpec(&template.Spec) }

// defaultPodSpec fills in what templates and pods have in common. More that
// holds for pods only is in defaultPod: a template keeps the form in which it
// was written as far as possible.
func defaultPodSpec(spec *corev1.PodSpec) {
	if spec.DNSPolicy == "" {
		spec.DNSPolicy = corev1.DNSClusterFirst
	}
	if spec.RestartPolicy == "" {
		spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = new(int64(corev1.DefaultTerminationGracePeriodSeconds))
	}
	if spec.SchedulerName == "" {
		spec.SchedulerName = corev1.DefaultSchedulerName
	}
	mirrorServiceAccount(spec)
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i].VolumeSource)
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		defaultContainer((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	roundUp(spec.Overhead)
	if spec.Resources != nil {
		roundUp(spec.Resources.Limits)
		roundUp(spec.Resources.Requests)
	}
}

// mirrorServiceAccount keeps the two names of a field the same: serviceAccount
// is what serviceAccountName was called once.
func mirrorServiceAccount(spec *corev1.PodSpec) {
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	}
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
}

// roundUp makes amounts whole thousandths, the smallest there are.
func roundUp(list corev1.ResourceList) {
	for name, q := range list {
		if !q.RoundUp(resource.Milli) {
			list[name] = q
		}
	}
}

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	if c.TerminationMessagePath == "" {
		c.TerminationMessagePath = corev1.TerminationMessagePathDefault
	}
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil && from.FileKeyRef.Optional == nil {
				from.FileKeyRef.Optional = new(false)
			}
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	defaultProbe(c.LivenessProbe)
	defaultProbe(c.ReadinessProbe)
	defaultProbe(c.StartupProbe)
	if l := c.Lifecycle; l != nil {
		if l.PostStart != nil {
			defaultHTTP(l.PostStart.HTTPGet)
		}
		if l.PreStop != nil {
			defaultHTTP(l.PreStop.HTTPGet)
		}
	}
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil && ref.APIVersion == "" {
		ref.APIVersion = "v1"
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	if p.TimeoutSeconds == 0 {
		p.TimeoutSeconds = 1
	}
	if p.PeriodSeconds == 0 {
		p.PeriodSeconds = 10
	}
	if p.SuccessThreshold == 0 {
		p.SuccessThreshold = 1
	}
	if p.FailureThreshold == 0 {
		p.FailureThreshold = 3
	}
	defaultHTTP(p.HTTPGet)
	if p.GRPC != nil && p.GRPC.Service == nil {
		p.GRPC.Service = new("")
	}
}

func defaultHTTP(h *corev1.HTTPGetAction) {
	if h == nil {
		return
	}
	if h.Path == "" {
		h.Path = "/"
	}
	if h.Scheme == "" {
		h.Scheme = corev1.URISchemeHTTP
	}
}

// pullPolicy of an image that says none: an image that may change under its
// name is always pulled.
func pullPolicy(image string) corev1.PullPolicy {
	if imageTag(image) == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// imageTag is the tag of an image's name, "latest" if it has neither tag nor
// digest, and "" if it is no name of an image at all.
// https://pkg.go.dev/github.com/distribution/reference
func imageTag(image string) string {
	name, _, digested := strings.Cut(image, "@")
	tag := ""
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		name, tag = name[:colon], name[colon+1:]
		if tag == "" {
			return ""
		}
	} else if !digested {
		tag = "latest"
	}
	if !imagePath(name) {
		return ""
	}
	return tag
}

// imagePath tells whether name is well-formed without its tag: a registry,
// which may be left out, and a path in lower case.
func imagePath(name string) bool {
	if first, rest, ok := strings.Cut(name, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost" || strings.ToLower(first) != first) {
		name = rest
	}
	if name == "" || name[0] == '/' || name[len(name)-1] == '/' {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-', c == '/':
		default:
			return false
		}
	}
	return true
}

func defaultVolume(v *corev1.VolumeSource) {
	if volumeTypes(v) == 0 {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	switch {
	case v.HostPath != nil:
		if v.HostPath.Type == nil {
			v.HostPath.Type = new(corev1.HostPathUnset)
		}
	case v.Secret != nil:
		defaultMode(&v.Secret.DefaultMode)
	case v.ConfigMap != nil:
		defaultMode(&v.ConfigMap.DefaultMode)
	case v.DownwardAPI != nil:
		defaultMode(&v.DownwardAPI.DefaultMode)
		for i := range v.DownwardAPI.Items {
			defaultFieldRef(v.DownwardAPI.Items[i].FieldRef)
		}
	case v.Projected != nil:
		defaultProjected(v.Projected)
	case v.Ephemeral != nil:
		if t := v.Ephemeral.VolumeClaimTemplate; t != nil {
			defaultClaimSpec(&t.Spec)
		}
	case v.Image != nil:
		if v.Image.PullPolicy == "" {
			v.Image.PullPolicy = pullPolicy(v.Image.Reference)
		}
	default:
		defaultStorage(v)
	}
}

// defaultFileMode is 0644.
const defaultFileMode = corev1.SecretVolumeSourceDefaultMode

func defaultMode(mode **int32) {
	if *mode == nil {
		*mode = new(int32(defaultFileMode))
	}
}

func defaultProjected(v *corev1.ProjectedVolumeSource) {
	defaultMode(&v.DefaultMode)
	for i := range v.Sources {
		source := &v.Sources[i]
		if source.DownwardAPI != nil {
			for j := range source.DownwardAPI.Items {
				defaultFieldRef(source.DownwardAPI.Items[j].FieldRef)
			}
		}
		if t := source.ServiceAccountToken; t != nil && t.ExpirationSeconds == nil {
			t.ExpirationSeconds = new(int64(60 * 60))
		}
	}
}

func defaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	if spec.VolumeMode == nil {
		spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	}
	roundUp(spec.Resources.Limits)
	roundUp(spec.Resources.Requests)
}

func defaultText(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

// defaultStorage fills in volumes of the storage systems with a type of their
// own.
func defaultStorage(v *corev1.VolumeSource) {
	switch {
	case v.ISCSI != nil:
		defaultText(&v.ISCSI.ISCSIInterface, "default")
	case v.RBD != nil:
		defaultText(&v.RBD.RBDPool, "rbd")
		defaultText(&v.RBD.RadosUser, "admin")
		defaultText(&v.RBD.Keyring, "/etc/ceph/keyring")
	case v.AzureDisk != nil:
		defaultAzureDisk(v.AzureDisk)
	case v.ScaleIO != nil:
		defaultText(&v.ScaleIO.StorageMode, "ThinProvisioned")
		defaultText(&v.ScaleIO.FSType, "xfs")
	}
}

func defaultAzureDisk(d *corev1.AzureDiskVolumeSource) {
	if d.CachingMode == nil {
		d.CachingMode = new(corev1.AzureDataDiskCachingReadWrite)
	}
	if d.Kind == nil {
		d.Kind = new(corev1.AzureSharedBlobDisk)
	}
	if d.FSType == nil {
		d.FSType = new("ext4")
	}
	if d.ReadOnly == nil {
		d.ReadOnly = new(false)
	}
}
