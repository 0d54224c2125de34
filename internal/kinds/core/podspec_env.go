package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

func (s *specCheck) validateEnv(vars []corev1.EnvVar, path *field.Path) {
	for i := range vars {
		v := &vars[i]
		if v.Name == "" {
			s.Required(path.Index(i), "name", "")
		} else if bad := validation.IsRelaxedEnvVarName(v.Name); len(bad) > 0 {
			s.Text(path.Index(i), "name", v.Name, bad)
		}
		if v.ValueFrom != nil {
			s.validateEnvSource(v, path.Index(i).Child("valueFrom"))
		}
	}
}

func (s *specCheck) validateEnvSource(v *corev1.EnvVar, path *field.Path) {
	from, sources := v.ValueFrom, 0
	if from.FieldRef != nil {
		sources++
		validateFieldRef(&s.Errors, from.FieldRef, envFields, path.Child("fieldRef"))
	}
	if from.ResourceFieldRef != nil {
		sources++
		validateResourceRef(&s.Errors, from.ResourceFieldRef, path.Child("resourceFieldRef"), false)
	}
	if from.ConfigMapKeyRef != nil {
		sources++
		s.validateKeyRef(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, path.Child("configMapKeyRef"))
	}
	if from.SecretKeyRef != nil {
		sources++
		s.validateKeyRef(from.SecretKeyRef.Name, from.SecretKeyRef.Key, path.Child("secretKeyRef"))
	}
	if from.FileKeyRef != nil {
		sources++
		s.validateFileKeyRef(from.FileKeyRef, path.Child("fileKeyRef"))
	}
	switch {
	case sources == 0:
		s.Invalid(path, "", "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case v.Value != "":
		s.Invalid(path, "", "", "may not be specified when `value` is not empty")
	case sources > 1:
		s.Invalid(path, "", "", "may not have more than one field specified at a time")
	}
}

func (s *specCheck) validateKeyRef(name, key string, path *field.Path) {
	s.Subdomain(path, "name", name)
	if key == "" {
		s.Required(path, "key", "")
		return
	}
	s.Text(path, "key", key, validation.IsConfigMapKey(key))
}

func (s *specCheck) validateFileKeyRef(ref *corev1.FileKeySelector, path *field.Path) {
	if ref.Key == "" {
		s.Required(path, "key", "")
	} else {
		s.Text(path, "key", ref.Key, validation.IsRelaxedEnvVarName(ref.Key))
	}
	switch source, found := s.volumes[ref.VolumeName]; {
	case ref.VolumeName == "":
		s.Required(path, "volumeName", "")
	case !found:
		s.NotFound(path, "volumeName", ref.VolumeName)
	case source.EmptyDir == nil:
		s.Invalid(path, "volumeName", ref.VolumeName, "referenced volume must be of type emptyDir")
	}
	if ref.Path == "" {
		s.Required(path, "path", "")
	} else {
		validateLocalPath(&s.Errors, ref.Path, path, "path", true)
	}
}

func (s *specCheck) validateEnvFrom(sources []corev1.EnvFromSource, path *field.Path) {
	for i := range sources {
		from, p := &sources[i], path.Index(i)
		if from.Prefix != "" {
			s.Text(p, "prefix", from.Prefix, validation.IsRelaxedEnvVarName(from.Prefix))
		}
		count := 0
		if from.ConfigMapRef != nil {
			count++
			s.validateSourceName(from.ConfigMapRef.Name, p, "configMapRef")
		}
		if from.SecretRef != nil {
			count++
			s.validateSourceName(from.SecretRef.Name, p, "secretRef")
		}
		switch {
		case count == 0:
			s.Invalid(path, "", "", "must specify one of: `configMapRef` or `secretRef`")
		case count > 1:
			s.Invalid(path, "", "", "may not have more than one field specified at a time")
		}
	}
}

func (s *specCheck) validateSourceName(name string, path *field.Path, ref string) {
	if name == "" {
		s.Required(path.Child(ref), "name", "")
		return
	}
	s.Subdomain(path.Child(ref), "name", name)
}

// envFields and volumeFields are the fields of a pod that the downward API
// shows in variables and in files.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	volumeFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
	// fieldLabels are all the fields of a pod that have a name in the API.
	fieldLabels = []string{
		"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
		"spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName", "spec.hostNetwork",
		"status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
)

// validateFieldRef checks a reference to a field of the pod:
// metadata.labels['key'] or one of the allowed names.
func validateFieldRef(c *check.Errors, ref *corev1.ObjectFieldSelector, allowed []string, path *field.Path) {
	if ref.APIVersion == "" {
		c.Required(path, "apiVersion", "")
		return
	}
	if ref.FieldPath == "" {
		c.Required(path, "fieldPath", "")
		return
	}
	if ref.APIVersion != "v1" {
		c.Invalid(path, "fieldPath", ref.FieldPath, fmt.Sprintf("error converting fieldPath: unsupported pod version: %s", ref.APIVersion))
		return
	}
	name, key, subscripted := subscript(ref.FieldPath)
	if subscripted {
		switch name {
		case "metadata.annotations":
			c.Qualified(path, "", strings.ToLower(key))
		case "metadata.labels":
			c.Qualified(path, "", key)
		default:
			c.Invalid(path, "fieldPath", ref.FieldPath, fmt.Sprintf("error converting fieldPath: field label does not support subscript: %s", ref.FieldPath))
		}
		return
	}
	if name == "spec.host" { // its name long ago
		name = "spec.nodeName"
	}
	if !slices.Contains(fieldLabels, name) {
		c.Invalid(path, "fieldPath", ref.FieldPath, fmt.Sprintf("error converting fieldPath: field label not supported: %s", ref.FieldPath))
		return
	}
	check.Among(c, path, "fieldPath", name, allowed...)
}

// subscript splits a['b'].
func subscript(fieldPath string) (name, key string, ok bool) {
	rest, ok := strings.CutSuffix(fieldPath, "']")
	if !ok {
		return fieldPath, "", false
	}
	name, key, ok = strings.Cut(rest, "['")
	if !ok || name == "" {
		return fieldPath, "", false
	}
	return name, key, true
}

// containerResources are what the downward API shows of a container, besides
// huge pages.
var containerResources = []string{
	"limits.cpu", "limits.ephemeral-storage", "limits.memory",
	"requests.cpu", "requests.ephemeral-storage", "requests.memory",
}

func validateResourceRef(c *check.Errors, ref *corev1.ResourceFieldSelector, path *field.Path, volume bool) {
	huge := strings.HasPrefix(ref.Resource, "limits.hugepages-") || strings.HasPrefix(ref.Resource, "requests.hugepages-")
	switch {
	case volume && ref.ContainerName == "":
		c.Required(path, "containerName", "")
	case ref.Resource == "":
		c.Required(path, "resource", "")
	case !huge:
		check.Among(c, path, "resource", ref.Resource, containerResources...)
	}
	if !ref.Divisor.IsZero() {
		validateDivisor(c, ref, path, huge)
	}
}

// byteDivisors divide an amount of bytes.
const byteDivisors = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"

func validateDivisor(c *check.Errors, ref *corev1.ResourceFieldSelector, path *field.Path, huge bool) {
	divisor := ref.Divisor.String()
	_, unit, _ := strings.Cut(ref.Resource, ".")
	switch {
	case unit == "cpu":
		if divisor != "1m" && divisor != "1" {
			c.Invalid(path, "divisor", ref.Resource, "only divisor's values 1m and 1 are supported with the cpu resource")
		}
		return
	case unit == "ephemeral-storage":
		unit = "local ephemeral storage"
	case huge:
		unit = "hugepages"
	case unit != "memory":
		return
	}
	if !slices.Contains(strings.Split(byteDivisors, ", "), divisor) {
		c.Invalid(path, "divisor", ref.Resource, "only divisor's values "+byteDivisors+" are supported with the "+unit+" resource")
	}
}

func negative(q *resource.Quantity) bool { return q != nil && q.Sign() < 0 }
