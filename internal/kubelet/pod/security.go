package pod

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// security is the container's security context: its own fields before the
// pod's.
func (d *Deps) security(ctx context.Context, pod *v1.Pod, c *v1.Container, ref string) (*runtimeapi.LinuxContainerSecurityContext, error) {
	own, podSC := c.SecurityContext, pod.Spec.SecurityContext
	if own == nil {
		own = &v1.SecurityContext{}
	}
	if podSC == nil {
		podSC = &v1.PodSecurityContext{}
	}
	s := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions:         namespaces(pod),
		SupplementalGroups:       groups(pod),
		SupplementalGroupsPolicy: groupsPolicy(pod),
		Privileged:               own.Privileged != nil && *own.Privileged,
		ReadonlyRootfs:           own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem,
		NoNewPrivs:               own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation,
	}
	if own.Capabilities != nil {
		s.Capabilities = &runtimeapi.Capability{}
		for _, v := range own.Capabilities.Add {
			s.Capabilities.AddCapabilities = append(s.Capabilities.AddCapabilities, string(v))
		}
		for _, v := range own.Capabilities.Drop {
			s.Capabilities.DropCapabilities = append(s.Capabilities.DropCapabilities, string(v))
		}
	}
	user, group, nonRoot := podSC.RunAsUser, podSC.RunAsGroup, podSC.RunAsNonRoot
	if own.RunAsUser != nil {
		user = own.RunAsUser
	}
	if own.RunAsGroup != nil {
		group = own.RunAsGroup
	}
	if own.RunAsNonRoot != nil {
		nonRoot = own.RunAsNonRoot
	}
	imageUID, imageName, err := d.imageUser(ctx, ref)
	if err != nil {
		return nil, err
	}
	if err := checkNonRoot(pod, c, user, nonRoot, imageUID, imageName); err != nil {
		return nil, err
	}
	switch {
	case user != nil:
		s.RunAsUser = &runtimeapi.Int64Value{Value: *user}
	case imageUID != nil:
		s.RunAsUser = &runtimeapi.Int64Value{Value: *imageUID}
	case imageName != "":
		s.RunAsUsername = imageName
	}
	if group != nil {
		s.RunAsGroup = &runtimeapi.Int64Value{Value: *group}
	}
	profile := podSC.SeccompProfile
	if own.SeccompProfile != nil {
		profile = own.SeccompProfile
	}
	if s.Seccomp, err = d.seccomp(profile); err != nil {
		return nil, err
	}
	if own.ProcMount == nil || *own.ProcMount != v1.UnmaskedProcMount {
		s.MaskedPaths, s.ReadonlyPaths = maskedPaths, readonlyPaths
	}
	return s, nil
}

// What of /proc and /sys a container does not see or may not write: the
// runtimes' common list.
var (
	maskedPaths = []string{"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap"}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// imageUser is the user that the image names, by number or by name.
func (d *Deps) imageUser(ctx context.Context, ref string) (*int64, string, error) {
	resp, err := d.Runtime.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		return nil, "", err
	}
	img := resp.GetImage()
	if img == nil {
		return nil, "", fmt.Errorf("image %q is gone", ref)
	}
	if img.Uid != nil {
		uid := img.Uid.Value
		return &uid, "", nil
	}
	return nil, img.Username, nil
}

func checkNonRoot(pod *v1.Pod, c *v1.Container, user *int64, nonRoot *bool, imageUID *int64, imageName string) error {
	if nonRoot == nil || !*nonRoot {
		return nil
	}
	where := fmt.Sprintf("pod: %q, container: %s", fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID), c.Name)
	switch {
	case user != nil && *user == 0:
		return fmt.Errorf("container's runAsUser breaks non-root policy (%s)", where)
	case user != nil:
		return nil
	case imageUID != nil && *imageUID == 0, imageUID == nil && imageName == "":
		return fmt.Errorf("container has runAsNonRoot and image will run as root (%s)", where)
	case imageUID == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (%s)", imageName, where)
	}
	return nil
}

func (d *Deps) seccomp(p *v1.SeccompProfile) (*runtimeapi.SecurityProfile, error) {
	if p == nil {
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	}
	switch p.Type {
	case v1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			return nil, errors.New("localhostProfile must be set if seccompProfile type is Localhost.")
		}
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: filepath.Join(d.SeccompDir, *p.LocalhostProfile)}, nil
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
}
