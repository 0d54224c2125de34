package core

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

func (s *specCheck) validateContainers(path *field.Path) {
	if len(s.spec.Containers) == 0 {
		s.Required(path, "", "")
		return
	}
	var names check.Unique[string]
	var ports check.Unique[hostPort]
	for i := range s.spec.Containers {
		c, p := &s.spec.Containers[i], path.Index(i)
		s.validateContainer(c, p)
		if names.Seen(c.Name) {
			s.Duplicate(p, "name", c.Name)
		}
		s.validateLifecycleAndProbes(c, p)
		if c.RestartPolicy != nil {
			check.Among(&s.Errors, p, "restartPolicy", *c.RestartPolicy, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
		}
		s.validateRestartRules(c, p)
		s.hostPortsUnique(c, p, &ports)
		if s.pod {
			s.imageTrimmed(c, p)
		}
	}
}

// sidecar tells whether an init container runs beside the containers.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func (s *specCheck) validateInitContainers(path *field.Path) {
	var names check.Unique[string]
	for i := range s.spec.Containers {
		names.Seen(s.spec.Containers[i].Name)
	}
	for i := range s.spec.InitContainers {
		c, p := &s.spec.InitContainers[i], path.Index(i)
		s.validateContainer(c, p)
		if c.RestartPolicy != nil {
			check.Among(&s.Errors, p, "restartPolicy", *c.RestartPolicy, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
		}
		s.validateRestartRules(c, p)
		if c.Name != "" && names.Seen(c.Name) {
			s.Duplicate(p, "name", c.Name)
		}
		// Init containers run one by one, so only ports within one may clash.
		var ports check.Unique[hostPort]
		s.hostPortsUnique(c, p, &ports)
		if sidecar(c) {
			s.validateLifecycleAndProbes(c, p)
		} else {
			s.noLifecycleOrProbes(c, p)
		}
		if s.pod {
			s.imageTrimmed(c, p)
		}
	}
}

func (s *specCheck) noLifecycleOrProbes(c *corev1.Container, path *field.Path) {
	for _, f := range [...]struct {
		name string
		set  bool
	}{
		{"lifecycle", c.Lifecycle != nil},
		{"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil},
	} {
		if f.set {
			s.Forbidden(path, f.name, "may not be set for init containers without restartPolicy=Always")
		}
	}
}

// maxRestartRules and maxExitCodes bound a container's restart rules.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

func (s *specCheck) validateRestartRules(c *corev1.Container, path *field.Path) {
	rules := c.RestartPolicyRules
	if len(rules) == 0 {
		return
	}
	if c.RestartPolicy == nil {
		s.Required(path, "restartPolicy", "must specify restartPolicy when restart rules are used")
	}
	p := path.Child("restartPolicyRules")
	if len(rules) > maxRestartRules {
		s.TooMany(p, "", len(rules), maxRestartRules)
	}
	for i, r := range rules {
		p := p.Index(i)
		check.OneOf(&s.Errors, p, "action", r.Action, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		if r.ExitCodes == nil {
			s.Required(p, "exitCodes", "must be specified")
			continue
		}
		p = p.Child("exitCodes")
		check.OneOf(&s.Errors, p, "operator", r.ExitCodes.Operator, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if len(r.ExitCodes.Values) > maxExitCodes {
			s.TooMany(p, "values", len(r.ExitCodes.Values), maxExitCodes)
		}
	}
}

// validateContainer checks what holds for all three sorts of containers.
func (s *specCheck) validateContainer(c *corev1.Container, path *field.Path) {
	s.Name(path, "name", c.Name)
	s.NotEmpty(path, "image", c.Image)
	check.OneOf(&s.Errors, path, "terminationMessagePolicy", c.TerminationMessagePolicy, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	s.validatePorts(c.Ports, path)
	if len(c.Env) > 0 {
		s.validateEnv(c.Env, path.Child("env"))
	}
	if len(c.EnvFrom) > 0 {
		s.validateEnvFrom(c.EnvFrom, path.Child("envFrom"))
	}
	if len(c.VolumeMounts) > 0 {
		s.validateMounts(c, path.Child("volumeMounts"))
	}
	if len(c.VolumeDevices) > 0 {
		s.validateDevices(c, path.Child("volumeDevices"))
	}
	check.OneOf(&s.Errors, path, "imagePullPolicy", c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	if r := &c.Resources; len(r.Limits)+len(r.Requests)+len(r.Claims) > 0 {
		s.validateRequirements(r, path.Child("resources"), s.containerResourceName)
	}
	if len(c.ResizePolicy) > 0 {
		s.validateResizePolicy(c, path.Child("resizePolicy"))
	}
	if c.SecurityContext != nil {
		s.validateSecurity(c.SecurityContext, path.Child("securityContext"))
	}
}

// imageTrimmed is a rule for pods only, as templates of old may break it.
func (s *specCheck) imageTrimmed(c *corev1.Container, path *field.Path) {
	if c.Image != strings.TrimSpace(c.Image) {
		s.Invalid(path, "image", c.Image, "must not have leading or trailing whitespace")
	}
}

func (s *specCheck) validatePorts(ports []corev1.ContainerPort, path *field.Path) {
	if len(ports) == 0 {
		return
	}
	path = path.Child("ports")
	var names check.Unique[string]
	for i := range ports {
		port, p := &ports[i], path.Index(i)
		if port.Name != "" {
			if bad := portName(port.Name); len(bad) > 0 {
				s.Text(p, "name", port.Name, bad)
			} else if names.Seen(port.Name) {
				s.Duplicate(p, "name", port.Name)
			}
		}
		if port.ContainerPort == 0 {
			s.Required(p, "containerPort", "")
		} else {
			s.Port(p, "containerPort", port.ContainerPort)
		}
		if port.HostPort != 0 {
			s.Port(p, "hostPort", port.HostPort)
		}
		validateProtocol(&s.Errors, p, port.Protocol)
	}
}

func validateProtocol(c *check.Errors, path *field.Path, protocol corev1.Protocol) {
	check.OneOf(c, path, "protocol", protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
}

// hostPort is what only one container of a pod can listen on.
type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

func (s *specCheck) hostPortsUnique(c *corev1.Container, path *field.Path, ports *check.Unique[hostPort]) {
	for i := range c.Ports {
		port := &c.Ports[i]
		if port.HostPort != 0 && ports.Seen(hostPort{port.Protocol, port.HostIP, port.HostPort}) {
			s.Duplicate(path.Child("ports").Index(i), "hostPort", fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort))
		}
	}
}

// validateHostPorts: on the host's network a container port is a host port. A
// template may leave it out, as it is filled in when a pod is made of it.
func (s *specCheck) validateHostPorts(path *field.Path) {
	if !s.spec.HostNetwork {
		return
	}
	for i := range s.spec.Containers {
		for j, port := range s.spec.Containers[i].Ports {
			if port.HostPort != port.ContainerPort && (s.pod || port.HostPort != 0) {
				s.Invalid(path.Child("containers").Index(i).Child("ports").Index(j), "hostPort", port.HostPort, "must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

// forEphemeral are the fields that an ephemeral container may set: it is for
// looking at a pod, nothing depends on it.
var forEphemeral = map[string]bool{
	"Name": true, "Image": true, "Command": true, "Args": true, "WorkingDir": true, "EnvFrom": true, "Env": true,
	"VolumeMounts": true, "VolumeDevices": true, "TerminationMessagePath": true, "TerminationMessagePolicy": true,
	"ImagePullPolicy": true, "SecurityContext": true, "Stdin": true, "StdinOnce": true, "TTY": true,
}

const notForEphemeral = "cannot be set for an Ephemeral Container"

func (s *specCheck) validateEphemeralContainers(path *field.Path) {
	var names, targets check.Unique[string]
	for _, list := range [][]corev1.Container{s.spec.Containers, s.spec.InitContainers} {
		for i := range list {
			names.Seen(list[i].Name)
			targets.Seen(list[i].Name)
		}
	}
	for i := range s.spec.EphemeralContainers {
		e, p := &s.spec.EphemeralContainers[i], path.Index(i)
		c := (*corev1.Container)(&e.EphemeralContainerCommon)
		s.validateContainer(c, p)
		s.imageTrimmed(c, p)
		if names.Seen(e.Name) {
			s.Duplicate(p, "name", e.Name)
		}
		if e.TargetContainerName != "" && !targets.Has(e.TargetContainerName) {
			s.NotFound(p, "targetContainerName", e.TargetContainerName)
		}
		v := reflect.ValueOf(&e.EphemeralContainerCommon).Elem()
		for j := range v.NumField() {
			if name := v.Type().Field(j).Name; !forEphemeral[name] && !v.Field(j).IsZero() {
				s.Forbidden(p, string(unicode.ToLower(rune(name[0])))+name[1:], notForEphemeral)
			}
		}
		for j, m := range e.VolumeMounts {
			if m.SubPath != "" {
				s.Forbidden(p.Child("volumeMounts").Index(j), "subPath", notForEphemeral)
			}
			if m.SubPathExpr != "" {
				s.Forbidden(p.Child("volumeMounts").Index(j), "subPathExpr", notForEphemeral)
			}
		}
	}
}
