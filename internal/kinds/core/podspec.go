package core

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// The rules for pod specs lie in the files podspec_*.go, one a concept. They
// hold for pods and for the pod templates of other kinds; what holds for pods
// only asks specCheck.pod.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/

// specCheck is one check of one pod spec.
type specCheck struct {
	check.Errors
	spec *corev1.PodSpec
	// meta is the pod's, nil for a template: names of claims for ephemeral
	// volumes are made of it.
	meta *metav1.ObjectMeta
	// pod says that the spec is a pod's own.
	pod bool

	volumes map[string]*corev1.VolumeSource // those that are valid, by name
	claims  check.Unique[string]            // names of spec.resourceClaims
}

// ValidatePodTemplateSpec checks a template, for all kinds that have one.
func ValidatePodTemplateSpec(c *check.Errors, template *corev1.PodTemplateSpec, path *field.Path) {
	if len(template.Labels) > 0 {
		c.Add(metavalidation.ValidateLabels(template.Labels, path.Child("labels")))
	}
	if len(template.Annotations) > 0 {
		c.Add(validation.ValidateAnnotations(template.Annotations, path.Child("annotations")))
		validatePodAnnotations(c, template.Annotations, &template.Spec, path.Child("annotations"))
	}
	s := &specCheck{spec: &template.Spec}
	specPath := path.Child("spec")
	s.validate(specPath)
	s.profilesAgree(template.Annotations, specPath)
	if len(template.Spec.EphemeralContainers) > 0 {
		s.Forbidden(specPath, "ephemeralContainers", "ephemeral containers not allowed in pod template")
	}
	c.Add(s.List)
}

func (s *specCheck) validate(path *field.Path) {
	spec := s.spec
	if spec.TerminationGracePeriodSeconds == nil {
		s.Required(path, "terminationGracePeriodSeconds", "")
	}
	if len(spec.Volumes) > 0 {
		s.validateVolumes(path.Child("volumes"))
	}
	s.validateResourceClaims(path)
	s.validateContainers(path.Child("containers"))
	if len(spec.InitContainers) > 0 {
		s.validateInitContainers(path.Child("initContainers"))
	}
	if len(spec.EphemeralContainers) > 0 {
		s.validateEphemeralContainers(path.Child("ephemeralContainers"))
	}
	if spec.Resources != nil {
		s.validatePodResources(path.Child("resources"))
	}
	s.validateHostPorts(path)
	check.OneOf(&s.Errors, path, "restartPolicy", spec.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	check.OneOf(&s.Errors, path, "dnsPolicy", spec.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	if len(spec.NodeSelector) > 0 {
		s.Add(metavalidation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector")))
	}
	if spec.SecurityContext != nil {
		s.validatePodSecurity(spec.SecurityContext, path, path.Child("securityContext"))
	}
	if spec.Affinity != nil {
		s.validateAffinity(spec.Affinity, path.Child("affinity"))
	}
	s.validateDNS(path)
	s.validateScheduling(path)
	s.validateHostUsers(path)
	s.validateIdentity(path)
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		s.Invalid(path, "activeDeadlineSeconds", *d, utilvalidation.InclusiveRangeError(1, math.MaxInt32))
	}
	if spec.Overhead != nil {
		s.validateRequirements(&corev1.ResourceRequirements{Limits: spec.Overhead}, path.Child("overhead"), s.containerResourceName)
	}
	s.validateOS(path)
}

// validateIdentity checks the names in a spec.
func (s *specCheck) validateIdentity(path *field.Path) {
	spec := s.spec
	for _, n := range [...]struct{ field, value string }{
		{"serviceAccountName", spec.ServiceAccountName},
		{"nodeName", spec.NodeName},
		{"priorityClassName", spec.PriorityClassName},
	} {
		if n.value != "" {
			s.Subdomain(path, n.field, n.value)
		}
	}
	if spec.RuntimeClassName != nil {
		s.Subdomain(path, "runtimeClassName", *spec.RuntimeClassName)
	}
	if spec.PreemptionPolicy != nil {
		check.OneOf(&s.Errors, path, "preemptionPolicy", *spec.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	if spec.Hostname != "" {
		s.Label(path, "hostname", spec.Hostname)
	}
	if spec.Subdomain != "" {
		s.Label(path, "subdomain", spec.Subdomain)
	}
	if o := spec.HostnameOverride; o != nil {
		s.validateHostnameOverride(*o, path)
	}
}

// validateHostnameOverride checks the name that stands in for hostname.
func (s *specCheck) validateHostnameOverride(name string, path *field.Path) {
	if name == "" {
		s.Required(path, "hostnameOverride", "must be a non-empty string when set")
		return
	}
	const max = 64 // of the kernel
	if len(name) > max {
		s.TooLong(path, "hostnameOverride", max)
	}
	s.Subdomain(path, "hostnameOverride", name)
	if s.spec.HostNetwork {
		s.Invalid(path, "hostnameOverride", name, "may not be specified when `hostNetwork` is true")
	}
	if fqdn := s.spec.SetHostnameAsFQDN; fqdn != nil && *fqdn {
		s.Invalid(path, "hostnameOverride", name, "may not be specified when `setHostnameAsFQDN` is true")
	}
}

// containers visits every container of a spec with its path: init containers,
// containers, ephemeral containers.
func containers(spec *corev1.PodSpec, path *field.Path, visit func(c *corev1.Container, path *field.Path)) {
	for i := range spec.InitContainers {
		visit(&spec.InitContainers[i], path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		visit(&spec.Containers[i], path.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		visit((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), path.Child("ephemeralContainers").Index(i))
	}
}
