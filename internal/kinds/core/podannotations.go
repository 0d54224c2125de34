package core

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// Annotations of pods that mean something to Kubernetes, and the profiles that
// fields have taken over from annotations.

const (
	deletionCost      = corev1.PodDeletionCost
	appArmorPrefix    = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	appArmorLocalhost = corev1.DeprecatedAppArmorBetaProfileNamePrefix
)

func validatePodAnnotations(c *check.Errors, annotations map[string]string, spec *corev1.PodSpec, path *field.Path) {
	if len(annotations) == 0 {
		return
	}
	if mirror, ok := annotations[corev1.MirrorPodAnnotationKey]; ok && spec.NodeName == "" {
		c.Invalid(path.Key(corev1.MirrorPodAnnotationKey), "", mirror, "must set spec.nodeName if mirror pod annotation is set")
	}
	if cost, ok := annotations[deletionCost]; ok && !isCost(cost) {
		c.Invalid(path.Key(deletionCost), "", cost, "must be a 32bit integer")
	}
	for _, key := range sorted(annotations) {
		value := annotations[key]
		switch {
		case key == corev1.SeccompPodAnnotationKey, strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix):
			validateSeccompName(c, value, path, key)
		case strings.HasPrefix(key, appArmorPrefix):
			validateAppArmorName(c, key, value, spec, path)
		}
	}
}

// isCost: a number of 32 bits as a person would write it.
func isCost(cost string) bool {
	if strings.HasPrefix(cost, "+") || (len(cost) > 1 && (cost[0] == '0' || strings.HasPrefix(cost, "-0"))) {
		return false
	}
	_, err := strconv.ParseInt(cost, 10, 32)
	return err == nil
}

func validateSeccompName(c *check.Errors, name string, path *field.Path, key string) {
	switch {
	case name == corev1.SeccompProfileRuntimeDefault, name == corev1.DeprecatedSeccompProfileDockerDefault, name == corev1.SeccompProfileNameUnconfined:
	case strings.HasPrefix(name, corev1.SeccompLocalhostProfileNamePrefix):
		validateLocalPath(c, strings.TrimPrefix(name, corev1.SeccompLocalhostProfileNamePrefix), path, key, false)
	default:
		c.Invalid(path, key, name, "must be a valid seccomp profile")
	}
}

func validateAppArmorName(c *check.Errors, key, name string, spec *corev1.PodSpec, path *field.Path) {
	container, found := strings.TrimPrefix(key, appArmorPrefix), false
	containers(spec, nil, func(c *corev1.Container, _ *field.Path) { found = found || c.Name == container })
	if !found {
		c.Invalid(path.Key(key), "", container, "container not found")
	}
	switch {
	case name == "", name == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault, name == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
	case strings.HasPrefix(name, appArmorLocalhost):
	default:
		c.Invalid(path.Key(key), "", name, fmt.Sprintf("invalid AppArmor profile name: %q", name))
	}
}

// validateAnnotationChange: what these annotations say of a pod holds as long
// as it lives.
func validateAnnotationChange(c *check.Errors, pod, old *corev1.Pod, path *field.Path) {
	fixed := func(key string) string {
		switch {
		case strings.HasPrefix(key, appArmorPrefix):
			return "AppArmor annotations"
		case key == corev1.MirrorPodAnnotationKey:
			return "mirror pod annotation"
		}
		return ""
	}
	for _, key := range sorted(old.Annotations) {
		value, ok := pod.Annotations[key]
		if what := fixed(key); what != "" && (!ok || value != old.Annotations[key]) {
			c.Forbidden(path.Key(key), "", "may not remove or update "+what)
		}
	}
	for _, key := range sorted(pod.Annotations) {
		_, ok := old.Annotations[key]
		if what := fixed(key); what != "" && !ok {
			c.Forbidden(path.Key(key), "", "may not add "+what)
		}
	}
	validatePodAnnotations(c, pod.Annotations, &pod.Spec, path)
}

// profilesAgree: where both an annotation and a field name a profile, it is
// the same.
func (s *specCheck) profilesAgree(annotations map[string]string, path *field.Path) {
	if len(annotations) == 0 {
		return
	}
	sc := s.spec.SecurityContext
	if sc != nil && sc.SeccompProfile != nil {
		if name, ok := annotations[corev1.SeccompPodAnnotationKey]; ok {
			s.seccompAgrees(name, sc.SeccompProfile, path.Child("securityContext", "seccompProfile"))
		}
	}
	windows := s.spec.OS != nil && s.spec.OS.Name == corev1.Windows
	containers(s.spec, path, func(c *corev1.Container, path *field.Path) {
		var seccomp *corev1.SeccompProfile
		var armor *corev1.AppArmorProfile
		if sc != nil {
			armor = sc.AppArmorProfile
		}
		if own := c.SecurityContext; own != nil {
			seccomp = own.SeccompProfile
			if own.AppArmorProfile != nil {
				armor = own.AppArmorProfile
			}
		}
		if name, ok := annotations[corev1.SeccompContainerAnnotationKeyPrefix+c.Name]; ok && seccomp != nil {
			s.seccompAgrees(name, seccomp, path.Child("securityContext", "seccompProfile"))
		}
		if name, ok := annotations[appArmorPrefix+c.Name]; ok && armor != nil && !windows {
			s.appArmorAgrees(name, armor, path.Child("securityContext", "appArmorProfile"))
		}
	})
}

func (s *specCheck) seccompAgrees(name string, p *corev1.SeccompProfile, path *field.Path) {
	local := strings.HasPrefix(name, corev1.SeccompLocalhostProfileNamePrefix)
	agrees := true
	switch p.Type {
	case corev1.SeccompProfileTypeUnconfined:
		agrees = name == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		agrees = name == corev1.SeccompProfileRuntimeDefault || name == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		agrees = local
		if local && (p.LocalhostProfile == nil || name != corev1.SeccompLocalhostProfileNamePrefix+*p.LocalhostProfile) {
			s.Forbidden(path, "localhostProfile", "seccomp profile in annotation and field must match")
		}
	}
	if !agrees {
		s.Forbidden(path, "type", "seccomp type in annotation and field must match")
	}
}

func (s *specCheck) appArmorAgrees(name string, p *corev1.AppArmorProfile, path *field.Path) {
	local := strings.HasPrefix(name, appArmorLocalhost)
	agrees := true
	switch p.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		agrees = name == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		agrees = name == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		agrees = local
		if local && (p.LocalhostProfile == nil || name != appArmorLocalhost+*p.LocalhostProfile) {
			s.Forbidden(path, "localhostProfile", "apparmor profile in annotation and field must match")
		}
	}
	if !agrees {
		s.Forbidden(path, "type", "apparmor type in annotation and field must match")
	}
}
