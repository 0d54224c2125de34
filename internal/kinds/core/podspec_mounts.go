package core

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

func (s *specCheck) validateMounts(c *corev1.Container, path *field.Path) {
	var points check.Unique[string]
	for i := range c.VolumeMounts {
		m, p := &c.VolumeMounts[i], path.Index(i)
		s.NotEmpty(p, "name", m.Name)
		if _, found := s.volumes[m.Name]; !found {
			s.NotFound(p, "name", m.Name)
		}
		s.NotEmpty(p, "mountPath", m.MountPath)
		if points.Seen(m.MountPath) {
			s.Invalid(p, "mountPath", m.MountPath, "must be unique")
		}
		for j := range c.VolumeDevices {
			if c.VolumeDevices[j].Name == m.Name {
				s.Invalid(p, "name", m.Name, "must not already exist in volumeDevices")
			}
			if c.VolumeDevices[j].DevicePath == m.MountPath {
				s.Invalid(p, "mountPath", m.MountPath, "must not already exist as a path in volumeDevices")
			}
		}
		// The paths of these are upstream's, which leave out the index.
		if m.SubPath != "" {
			validateLocalPath(&s.Errors, m.SubPath, path, "subPath", false)
		}
		if m.SubPathExpr != "" {
			if m.SubPath != "" {
				s.Invalid(p, "subPathExpr", m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
			}
			validateLocalPath(&s.Errors, m.SubPathExpr, path, "subPathExpr", false)
		}
		s.validatePropagation(c, m, path)
	}
}

func (s *specCheck) validatePropagation(c *corev1.Container, m *corev1.VolumeMount, path *field.Path) {
	if m.MountPropagation != nil {
		check.Among(&s.Errors, path, "mountPropagation", *m.MountPropagation,
			corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
		privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		if *m.MountPropagation == corev1.MountPropagationBidirectional && !privileged {
			s.Forbidden(path, "mountPropagation", "Bidirectional mount propagation is available only to privileged containers")
		}
	}
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return
	}
	switch *m.RecursiveReadOnly {
	case corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible:
		if !m.ReadOnly {
			s.Forbidden(path, "recursiveReadOnly", "may only be specified when readOnly is true")
		}
		if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
			s.Forbidden(path, "recursiveReadOnly", "may only be specified when mountPropagation is None or not specified")
		}
	default:
		check.Among(&s.Errors, path, "recursiveReadOnly", *m.RecursiveReadOnly,
			corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)
	}
}

func (s *specCheck) validateDevices(c *corev1.Container, path *field.Path) {
	var names, paths check.Unique[string]
	for i := range c.VolumeDevices {
		d, p := &c.VolumeDevices[i], path.Index(i)
		s.NotEmpty(p, "name", d.Name)
		if d.Name != "" && names.Seen(d.Name) {
			s.Invalid(p, "name", d.Name, "must be unique")
		}
		switch source, found := s.volumes[d.Name]; {
		case !found:
			s.NotFound(p, "name", d.Name)
		case source.PersistentVolumeClaim == nil && source.Ephemeral == nil:
			s.Invalid(p, "name", d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		s.NotEmpty(p, "devicePath", d.DevicePath)
		switch {
		case backsteps(d.DevicePath):
			s.Invalid(p, "devicePath", d.DevicePath, "can not contain backsteps ('..')")
		case paths.Seen(d.DevicePath):
			s.Invalid(p, "devicePath", d.DevicePath, "must be unique")
		}
		for j := range c.VolumeMounts {
			if c.VolumeMounts[j].Name == d.Name {
				s.Invalid(p, "name", d.Name, "must not already exist in volumeMounts")
			}
			if c.VolumeMounts[j].MountPath == d.DevicePath {
				s.Invalid(p, "devicePath", d.DevicePath, "must not already exist as a path in volumeMounts")
			}
		}
	}
}

func backsteps(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// validateLocalPath wants a path that stays below where it starts. Names that
// start with two dots are taken by the volumes that swap their content
// atomically, which reserved asks about.
func validateLocalPath(c *check.Errors, name string, parent *field.Path, child string, reserved bool) {
	if path.IsAbs(name) {
		c.Invalid(parent, child, name, "must be a relative path")
	}
	if backsteps(name) {
		c.Invalid(parent, child, name, "must not contain '..'")
	}
	if reserved && strings.HasPrefix(name, "..") && !strings.HasPrefix(name, "../") {
		c.Invalid(parent, child, name, "must not start with '..'")
	}
}
