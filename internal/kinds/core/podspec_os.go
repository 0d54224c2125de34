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

// validateOS checks that a spec asks for nothing its operating system has not.
func (s *specCheck) validateOS(path *field.Path) {
	s.validateHostProcess(path)
	os := s.spec.OS
	switch {
	case os == nil:
	case os.Name == "":
		s.Required(path.Child("os"), "name", "cannot be empty")
	case os.Name == corev1.Linux:
		s.validateLinux(path)
	case os.Name == corev1.Windows:
		s.validateWindows(path)
	default:
		check.Among(&s.Errors, path, "os", os.Name, corev1.Linux, corev1.Windows)
	}
}

func (s *specCheck) validateLinux(path *field.Path) {
	const detail = "windows options cannot be set for a linux pod"
	if sc := s.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		s.Forbidden(path.Child("securityContext"), "windowsOptions", detail)
	}
	containers(s.spec, path, func(c *corev1.Container, path *field.Path) {
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
			s.Forbidden(path.Child("securityContext"), "windowsOptions", detail)
		}
	})
}

// unset is a field that may not be set where it has no meaning.
type unset struct {
	name string
	set  bool
}

func (s *specCheck) validateWindows(path *field.Path) {
	refuse := func(path *field.Path, list ...unset) {
		for _, f := range list {
			if f.set {
				s.Forbidden(path, f.name, "cannot be set for a windows pod")
			}
		}
	}
	refuse(path,
		unset{"hostUsers", s.spec.HostUsers != nil},
		unset{"hostPID", s.spec.HostPID},
		unset{"hostIPC", s.spec.HostIPC},
		unset{"shareProcessNamespace", s.spec.ShareProcessNamespace != nil},
	)
	if sc := s.spec.SecurityContext; sc != nil {
		refuse(path.Child("securityContext"),
			unset{"appArmorProfile", sc.AppArmorProfile != nil},
			unset{"seLinuxOptions", sc.SELinuxOptions != nil},
			unset{"seccompProfile", sc.SeccompProfile != nil},
			unset{"fsGroup", sc.FSGroup != nil},
			unset{"fsGroupChangePolicy", sc.FSGroupChangePolicy != nil},
			unset{"sysctls", len(sc.Sysctls) > 0},
			unset{"runAsUser", sc.RunAsUser != nil},
			unset{"runAsGroup", sc.RunAsGroup != nil},
			unset{"supplementalGroups", sc.SupplementalGroups != nil},
			unset{"supplementalGroupsPolicy", sc.SupplementalGroupsPolicy != nil},
			unset{"seLinuxChangePolicy", sc.SELinuxChangePolicy != nil},
		)
	}
	containers(s.spec, path, func(c *corev1.Container, path *field.Path) {
		if sc := c.SecurityContext; sc != nil {
			refuse(path.Child("securityContext"),
				unset{"appArmorProfile", sc.AppArmorProfile != nil},
				unset{"seLinuxOptions", sc.SELinuxOptions != nil},
				unset{"seccompProfile", sc.SeccompProfile != nil},
				unset{"capabilities", sc.Capabilities != nil},
				unset{"readOnlyRootFilesystem", sc.ReadOnlyRootFilesystem != nil},
				unset{"privileged", sc.Privileged != nil},
				unset{"allowPrivilegeEscalation", sc.AllowPrivilegeEscalation != nil},
				unset{"procMount", sc.ProcMount != nil},
				unset{"runAsUser", sc.RunAsUser != nil},
				unset{"runAsGroup", sc.RunAsGroup != nil},
			)
		}
	})
}

// validateHostProcess: on Windows either all containers are processes of the
// host or none is.
func (s *specCheck) validateHostProcess(path *field.Path) {
	var whole *bool
	if sc := s.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		whole = sc.WindowsOptions.HostProcess
	}
	any, all := false, true
	one := func(c *corev1.Container, at func() *field.Path) {
		own := whole
		if sc := c.SecurityContext; sc != nil && sc.WindowsOptions != nil && sc.WindowsOptions.HostProcess != nil {
			own = sc.WindowsOptions.HostProcess
			if whole != nil && *whole != *own {
				s.Invalid(at().Child("securityContext", "windowsOptions"), "hostProcess", *own, fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *whole))
			}
		}
		is := own != nil && *own
		any, all = any || is, all && is
	}
	for i := range s.spec.InitContainers {
		one(&s.spec.InitContainers[i], func() *field.Path { return path.Child("initContainers").Index(i) })
	}
	for i := range s.spec.Containers {
		one(&s.spec.Containers[i], func() *field.Path { return path.Child("containers").Index(i) })
	}
	for i := range s.spec.EphemeralContainers {
		one((*corev1.Container)(&s.spec.EphemeralContainers[i].EphemeralContainerCommon), func() *field.Path { return path.Child("ephemeralContainers").Index(i) })
	}
	if !any {
		return
	}
	if !all {
		s.Invalid(path, "", "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
	}
	if !s.spec.HostNetwork {
		s.Invalid(path, "hostNetwork", false, "hostNetwork must be true if pod contains any hostProcess containers")
	}
}

// windowsNames match the parts of DOMAIN\USER. They are compiled when first
// needed, which on most clusters is never.
var windowsNames = sync.OnceValue(func() (m struct{ control, netBIOS, dns, dots, special *regexp.Regexp }) {
	const label = `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`
	m.control = regexp.MustCompile(`[[:cntrl:]]+`)
	m.netBIOS = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	m.dns = regexp.MustCompile(`^` + label + `(?:\.` + label + `)*$`)
	m.dots = regexp.MustCompile(`^[\. ]+$`)
	m.special = regexp.MustCompile(`["/\\:;|=,\+\*\?<>@\[\]]`)
	return m
})

const (
	maxCredentialSpecKiB = 64
	maxWindowsDomain     = 256
	maxWindowsUser       = 104
)

func (s *specCheck) validateWindowsOptions(o *corev1.WindowsSecurityContextOptions, parent *field.Path) {
	if o == nil {
		return
	}
	path := parent.Child("windowsOptions")
	if o.GMSACredentialSpecName != nil {
		s.Text(path, "gmsaCredentialSpecName", *o.GMSACredentialSpecName, validation.IsDNS1123Subdomain(*o.GMSACredentialSpecName))
	}
	if spec := o.GMSACredentialSpec; spec != nil {
		switch {
		case *spec == "":
			s.Invalid(path, "gmsaCredentialSpec", *spec, "gmsaCredentialSpec cannot be an empty string")
		case len(*spec) > maxCredentialSpecKiB*1024:
			s.Invalid(path, "gmsaCredentialSpec", *spec, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxCredentialSpecKiB))
		}
	}
	if o.RunAsUserName != nil {
		for _, detail := range windowsUser(*o.RunAsUserName) {
			s.Invalid(path, "runAsUserName", *o.RunAsUserName, detail)
		}
	}
}

// windowsUser says what is wrong with the name of a user.
func windowsUser(name string) (bad []string) {
	match := windowsNames()
	switch {
	case name == "":
		return []string{"runAsUserName cannot be an empty string"}
	case match.control.MatchString(name):
		return []string{"runAsUserName cannot contain control characters"}
	case strings.Count(name, `\`) > 1:
		return []string{"runAsUserName cannot contain more than one backslash"}
	}
	user := name
	if domain, rest, ok := strings.Cut(name, `\`); ok {
		user = rest
		if len(domain) >= maxWindowsDomain {
			bad = append(bad, fmt.Sprintf("runAsUserName's Domain length must be under %d characters", maxWindowsDomain))
		}
		if !match.netBIOS.MatchString(domain) && !match.dns.MatchString(domain) {
			bad = append(bad, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
		}
	}
	switch {
	case user == "":
		bad = append(bad, "runAsUserName's User cannot be empty")
	case len(user) > maxWindowsUser:
		bad = append(bad, fmt.Sprintf("runAsUserName's User length must not be longer than %d characters", maxWindowsUser))
	}
	if match.dots.MatchString(user) {
		bad = append(bad, "runAsUserName's User cannot contain only periods or spaces")
	}
	if match.special.MatchString(user) {
		bad = append(bad, `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
	return bad
}
