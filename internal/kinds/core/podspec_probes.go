package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

func (s *specCheck) validateLifecycleAndProbes(c *corev1.Container, path *field.Path) {
	if c.Lifecycle != nil {
		s.validateLifecycle(c.Lifecycle, path.Child("lifecycle"))
	}
	if p := c.LivenessProbe; p != nil {
		s.validateProbe(p, path.Child("livenessProbe"))
		s.successOnce(p, path.Child("livenessProbe"))
	}
	if p := c.ReadinessProbe; p != nil {
		s.validateProbe(p, path.Child("readinessProbe"))
		if p.TerminationGracePeriodSeconds != nil {
			s.Invalid(path.Child("readinessProbe"), "terminationGracePeriodSeconds", *p.TerminationGracePeriodSeconds, "must not be set for readinessProbes")
		}
	}
	if p := c.StartupProbe; p != nil {
		s.validateProbe(p, path.Child("startupProbe"))
		s.successOnce(p, path.Child("startupProbe"))
	}
}

// successOnce is for probes whose failure ends the container: one success
// clears them.
func (s *specCheck) successOnce(p *corev1.Probe, path *field.Path) {
	if p.SuccessThreshold != 1 {
		s.Invalid(path, "successThreshold", p.SuccessThreshold, "must be 1")
	}
}

func (s *specCheck) validateProbe(p *corev1.Probe, path *field.Path) {
	s.validateHandler(handler{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC}, path)
	s.NonNegative(path, "initialDelaySeconds", int64(p.InitialDelaySeconds))
	s.NonNegative(path, "timeoutSeconds", int64(p.TimeoutSeconds))
	s.NonNegative(path, "periodSeconds", int64(p.PeriodSeconds))
	s.NonNegative(path, "successThreshold", int64(p.SuccessThreshold))
	s.NonNegative(path, "failureThreshold", int64(p.FailureThreshold))
	if g := p.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		s.Invalid(path, "terminationGracePeriodSeconds", *g, "must be greater than 0")
	}
}

func (s *specCheck) validateLifecycle(l *corev1.Lifecycle, path *field.Path) {
	if h := l.PostStart; h != nil {
		s.validateHandler(handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}, path.Child("postStart"))
	}
	if h := l.PreStop; h != nil {
		s.validateHandler(handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}, path.Child("preStop"))
	}
	if l.StopSignal != nil {
		s.validateStopSignal(*l.StopSignal, path)
	}
}

// validateStopSignal: which signals there are depends on the system, so the
// pod must say which one it is for.
func (s *specCheck) validateStopSignal(signal corev1.Signal, path *field.Path) {
	switch os := s.spec.OS; {
	case os == nil:
		s.Forbidden(path, "stopSignal", "may not be set for containers with empty `spec.os.name`")
	case os.Name == corev1.Windows:
		check.Among(&s.Errors, path, "stopSignal", signal, corev1.SIGKILL, corev1.SIGTERM)
	}
}

// handler is what a probe and a lifecycle hook have in common.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func (s *specCheck) validateHandler(h handler, path *field.Path) {
	handlers := 0
	// one counts, and refuses all but the first.
	one := func(name string, set bool) bool {
		if !set {
			return false
		}
		if handlers++; handlers > 1 {
			s.Forbidden(path, name, "may not specify more than 1 handler type")
			return false
		}
		return true
	}
	if one("exec", h.exec != nil) && len(h.exec.Command) == 0 {
		s.Required(path.Child("exec"), "command", "")
	}
	if one("httpGet", h.http != nil) {
		s.validateHTTP(h.http, path.Child("httpGet"))
	}
	if one("tcpSocket", h.tcp != nil) {
		validatePortOrName(&s.Errors, path.Child("tcpSocket"), "port", h.tcp.Port)
	}
	if one("grpc", h.grpc != nil) {
		validatePortOrName(&s.Errors, path.Child("grpc"), "port", intstr.FromInt32(h.grpc.Port))
	}
	if one("sleep", h.sleep != nil) {
		// A missing grace period is found elsewhere.
		if grace := s.spec.TerminationGracePeriodSeconds; grace != nil && (h.sleep.Seconds < 0 || h.sleep.Seconds > *grace) {
			s.Invalid(path, "sleep", h.sleep.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace))
		}
	}
	if handlers == 0 {
		s.Required(path, "", "must specify a handler type")
	}
}

func (s *specCheck) validateHTTP(h *corev1.HTTPGetAction, path *field.Path) {
	s.NotEmpty(path, "path", h.Path)
	validatePortOrName(&s.Errors, path, "port", h.Port)
	check.Among(&s.Errors, path, "scheme", h.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for _, header := range h.HTTPHeaders {
		s.Text(path, "httpHeaders", header.Name, validation.IsHTTPHeaderName(header.Name))
	}
}

// portName says what is wrong with the name of a port.
func portName(name string) []string { return validation.IsValidPortName(name) }

func validatePortOrName(c *check.Errors, path *field.Path, name string, port intstr.IntOrString) {
	switch port.Type {
	case intstr.Int:
		if bad := validation.IsValidPortNum(int(port.IntVal)); len(bad) > 0 {
			c.Invalid(path, name, int(port.IntVal), bad[0])
		}
	case intstr.String:
		c.Text(path, name, port.StrVal, portName(port.StrVal))
	default:
		c.Invalid(path, name, port.Type, "must be a number or a string")
	}
}
