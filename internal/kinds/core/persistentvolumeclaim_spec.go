package core

import (
	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

func validateAccessModes(c *check.Errors, modes []corev1.PersistentVolumeAccessMode, path *field.Path, detail string) {
	if len(modes) == 0 {
		c.Required(path, "accessModes", detail)
	}
	alone := false
	for _, mode := range modes {
		check.Among(c, path, "accessModes", mode, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		alone = alone || mode == corev1.ReadWriteOncePod
	}
	if alone && len(modes) > 1 {
		c.Forbidden(path, "accessModes", "may not use ReadWriteOncePod with other access modes")
	}
}

// validateClaimSpec checks what a claim, or the template of one, asks for.
func validateClaimSpec(c *check.Errors, spec *corev1.PersistentVolumeClaimSpec, path *field.Path) {
	validateAccessModes(c, spec.AccessModes, path, "at least 1 access mode is required")
	if spec.Selector != nil {
		c.Add(metavalidation.ValidateLabelSelector(spec.Selector, metavalidation.LabelSelectorValidationOptions{}, path.Child("selector")))
	}
	requests := path.Child("resources")
	size, ok := spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case !ok:
		c.Required(requests.Key(string(corev1.ResourceStorage)), "", "")
	case size.Sign() <= 0:
		c.Invalid(requests.Key(string(corev1.ResourceStorage)), "", size.String(), notPositive)
	default:
		validateQuantity(c, corev1.ResourceStorage, size, requests.Key(string(corev1.ResourceStorage)))
	}
	if class := spec.StorageClassName; class != nil && *class != "" {
		c.Subdomain(path, "storageClassName", *class)
	}
	if class := spec.VolumeAttributesClassName; class != nil && *class != "" {
		c.Subdomain(path, "volumeAttributesClassName", *class)
	}
	if mode := spec.VolumeMode; mode != nil {
		check.Among(c, path, "volumeMode", *mode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	validateDataSources(c, spec, path)
}

func validateDataSources(c *check.Errors, spec *corev1.PersistentVolumeClaimSpec, path *field.Path) {
	source, ref := spec.DataSource, spec.DataSourceRef
	if source != nil {
		p := path.Child("dataSource")
		c.NotEmpty(p, "name", source.Name)
		c.NotEmpty(p, "kind", source.Kind)
		if group(source.APIGroup) == "" && source.Kind != "PersistentVolumeClaim" {
			c.Invalid(p, "", source.Kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
		}
	}
	if ref == nil {
		return
	}
	p := path.Child("dataSourceRef")
	c.NotEmpty(p, "name", ref.Name)
	c.NotEmpty(p, "kind", ref.Kind)
	if group(ref.APIGroup) == "" && ref.Kind != "PersistentVolumeClaim" {
		c.Invalid(p, "", ref.Kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
	}
	if source == nil || ref.Namespace != nil && *ref.Namespace != "" {
		return
	}
	if source.Kind != ref.Kind || source.Name != ref.Name || group(source.APIGroup) != group(ref.APIGroup) {
		c.Invalid(path, "", p.String(), "must match dataSource")
	}
}

func group(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}
