package core

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

func (s *specCheck) user(path *field.Path, name string, id *int64) {
	if id != nil {
		for _, msg := range validation.IsValidUserID(*id) {
			s.Invalid(path, name, *id, msg)
		}
	}
}

func (s *specCheck) group(path *field.Path, name string, id *int64) {
	if id != nil {
		for _, msg := range validation.IsValidGroupID(*id) {
			s.Invalid(path, name, *id, msg)
		}
	}
}

func (s *specCheck) validatePodSecurity(sc *corev1.PodSecurityContext, specPath, path *field.Path) {
	s.group(path, "fsGroup", sc.FSGroup)
	s.user(path, "runAsUser", sc.RunAsUser)
	s.group(path, "runAsGroup", sc.RunAsGroup)
	for i := range sc.SupplementalGroups {
		s.group(path.Child("supplementalGroups").Index(i), "", &sc.SupplementalGroups[i])
	}
	if share := s.spec.ShareProcessNamespace; share != nil && *share && s.spec.HostPID {
		s.Invalid(path, "shareProcessNamespace", *share, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	if len(sc.Sysctls) > 0 {
		s.validateSysctls(sc.Sysctls, path.Child("sysctls"))
	}
	if sc.FSGroupChangePolicy != nil {
		check.Among(&s.Errors, path, "fsGroupChangePolicy", *sc.FSGroupChangePolicy, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	}
	s.validateSeccomp(sc.SeccompProfile, path)
	s.validateWindowsOptions(sc.WindowsOptions, path)
	s.validateAppArmor(sc.AppArmorProfile, path)
	if sc.SupplementalGroupsPolicy != nil {
		check.Among(&s.Errors, path, "supplementalGroupsPolicy", *sc.SupplementalGroupsPolicy, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	if sc.SELinuxChangePolicy != nil {
		check.Among(&s.Errors, path, "seLinuxChangePolicy", *sc.SELinuxChangePolicy, corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)
	}
}

func (s *specCheck) validateSecurity(sc *corev1.SecurityContext, path *field.Path) {
	s.user(path, "runAsUser", sc.RunAsUser)
	s.group(path, "runAsGroup", sc.RunAsGroup)
	if sc.ProcMount != nil {
		check.Among(&s.Errors, path, "procMount", *sc.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		ownUsers := s.spec.HostUsers != nil && !*s.spec.HostUsers
		if *sc.ProcMount == corev1.UnmaskedProcMount && !ownUsers {
			s.Invalid(path, "procMount", *sc.ProcMount, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	s.validateSeccomp(sc.SeccompProfile, path)
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation {
		if sc.Privileged != nil && *sc.Privileged {
			s.Invalid(path, "", sc, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
		}
		if sc.Capabilities != nil {
			for _, added := range sc.Capabilities.Add {
				if added == "CAP_SYS_ADMIN" {
					s.Invalid(path, "", sc, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
				}
			}
		}
	}
	s.validateWindowsOptions(sc.WindowsOptions, path)
	s.validateAppArmor(sc.AppArmorProfile, path)
}

func (s *specCheck) validateSeccomp(p *corev1.SeccompProfile, parent *field.Path) {
	if p == nil {
		return
	}
	path := parent.Child("seccompProfile")
	if p.Type == "" {
		s.Required(path, "type", "type is required when seccompProfile is set")
	} else {
		check.Among(&s.Errors, path, "type", p.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	}
	switch local := p.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && p.LocalhostProfile == nil:
		s.Required(path, "localhostProfile", "must be set when seccomp type is Localhost")
	case local:
		validateLocalPath(&s.Errors, *p.LocalhostProfile, path, "localhostProfile", false)
	case p.LocalhostProfile != nil:
		s.Invalid(path, "localhostProfile", p, "can only be set when seccomp type is Localhost")
	}
}

// maxAppArmorProfile is the longest path there is, without its end.
const maxAppArmorProfile = 4095

func (s *specCheck) validateAppArmor(p *corev1.AppArmorProfile, parent *field.Path) {
	if p == nil {
		return
	}
	path := parent.Child("appArmorProfile")
	if p.Type == "" {
		s.Required(path, "type", "type is required when appArmorProfile is set")
		return
	}
	check.Among(&s.Errors, path, "type", p.Type, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	if p.Type != corev1.AppArmorProfileTypeLocalhost {
		if p.LocalhostProfile != nil && (p.Type == corev1.AppArmorProfileTypeRuntimeDefault || p.Type == corev1.AppArmorProfileTypeUnconfined) {
			s.Invalid(path, "localhostProfile", p.LocalhostProfile, "can only be set when AppArmor type is Localhost")
		}
		return
	}
	switch {
	case p.LocalhostProfile == nil || *p.LocalhostProfile == "":
		s.Required(path, "localhostProfile", "must be set when AppArmor type is Localhost")
	case strings.TrimSpace(*p.LocalhostProfile) != *p.LocalhostProfile:
		s.Invalid(path, "localhostProfile", *p.LocalhostProfile, "must not be padded with whitespace")
	case len(*p.LocalhostProfile) > maxAppArmorProfile:
		s.TooLong(path, "localhostProfile", maxAppArmorProfile)
	}
}

// sysctlName allows a slash for a dot, as sysctl does.
var sysctlName = sync.OnceValue(func() *regexp.Regexp {
	const segment = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
	return regexp.MustCompile("^(" + segment + "[\\./])*" + segment + "$")
})

const maxSysctlName = 253

func (s *specCheck) validateSysctls(list []corev1.Sysctl, path *field.Path) {
	var names check.Unique[string]
	for i, sysctl := range list {
		p := path.Index(i)
		switch {
		case sysctl.Name == "":
			s.Required(p, "name", "")
		case len(sysctl.Name) > maxSysctlName || !sysctlName().MatchString(sysctl.Name):
			s.Invalid(p, "name", sysctl.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctlName, sysctlName()))
		case names.Seen(sysctl.Name):
			s.Duplicate(p, "name", sysctl.Name)
		}
		// A pod in the host's namespace must not turn the host's knobs.
		name := strings.ReplaceAll(sysctl.Name, "/", ".")
		switch {
		case s.spec.HostNetwork && strings.HasPrefix(name, "net."):
			s.Invalid(p, "name", sysctl.Name, "may not be specified when 'hostNetwork' is true")
		case s.spec.HostIPC && (strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") || name == "kernel.sem" || strings.HasPrefix(name, "fs.mqueue.")):
			s.Invalid(p, "name", sysctl.Name, "may not be specified when 'hostIPC' is true")
		}
	}
}

// validateHostUsers: users of its own go with no other namespace of the host.
func (s *specCheck) validateHostUsers(path *field.Path) {
	if s.spec.HostUsers == nil || *s.spec.HostUsers {
		return
	}
	const detail = "when `hostUsers` is false"
	if s.spec.HostNetwork {
		s.Forbidden(path, "hostNetwork", detail)
	}
	if s.spec.HostPID {
		s.Forbidden(path, "hostPID", detail)
	}
	if s.spec.HostIPC {
		s.Forbidden(path, "hostIPC", detail)
	}
	containers(s.spec, path, func(c *corev1.Container, path *field.Path) {
		if len(c.VolumeDevices) > 0 {
			s.Forbidden(path, "volumeDevices", detail)
		}
	})
}
