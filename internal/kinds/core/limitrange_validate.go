package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// https://kubernetes.io/docs/concepts/policy/limit-range/
func validateLimitRange(r *corev1.LimitRange) field.ErrorList {
	s := &specCheck{}
	var types check.Unique[corev1.LimitType]
	for i := range r.Spec.Limits {
		item, p := &r.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		n := len(s.List)
		s.Qualified(p, "type", string(item.Type))
		if len(s.List) == n && !strings.Contains(string(item.Type), "/") {
			switch item.Type {
			case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
			default:
				s.Invalid(p, "type", item.Type, "must be a standard limit type or fully qualified")
			}
		}
		if types.Seen(item.Type) {
			s.Duplicate(p, "type", item.Type)
		}
		s.validateLimit(item, p)
	}
	return s.List
}

func (s *specCheck) validateLimit(item *corev1.LimitRangeItem, path *field.Path) {
	keys := map[corev1.ResourceName]bool{}
	names := func(list corev1.ResourceList, field string) {
		for _, name := range sorted(list) {
			keys[name] = true
			if p := path.Child(field).Key(string(name)); item.Type == corev1.LimitTypePod || item.Type == corev1.LimitTypeContainer {
				s.containerResourceName(name, p)
			} else {
				resourceName(&s.Errors, name, p)
			}
		}
	}
	names(item.Max, "max")
	names(item.Min, "min")
	if item.Type == corev1.LimitTypePod {
		const detail = "may not be specified when `type` is 'Pod'"
		if len(item.Default) > 0 {
			s.Forbidden(path, "default", detail)
		}
		if len(item.DefaultRequest) > 0 {
			s.Forbidden(path, "defaultRequest", detail)
		}
	} else {
		names(item.Default, "default")
		names(item.DefaultRequest, "defaultRequest")
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := item.Min[corev1.ResourceStorage]
		if _, most := item.Max[corev1.ResourceStorage]; !least && !most {
			s.Required(path, "limits", "either minimum or maximum storage value is required, but neither was provided")
		}
	}
	names(item.MaxLimitRequestRatio, "maxLimitRequestRatio")
	for _, name := range sorted(keys) {
		s.validateLimitOf(name, item, path)
	}
}

// bound is one of the quantities that a limit sets, or none.
type bound struct {
	q   apiresource.Quantity
	set bool
}

func boundOf(list corev1.ResourceList, name corev1.ResourceName) bound {
	q, ok := list[name]
	return bound{q, ok}
}

func (b bound) above(o bound) bool { return b.set && o.set && b.q.Cmp(o.q) > 0 }

func (s *specCheck) validateLimitOf(name corev1.ResourceName, item *corev1.LimitRangeItem, path *field.Path) {
	least, most := boundOf(item.Min, name), boundOf(item.Max, name)
	var limit, request bound
	if item.Type != corev1.LimitTypePod {
		limit, request = boundOf(item.Default, name), boundOf(item.DefaultRequest, name)
	}
	wrong := func(field string, value apiresource.Quantity, format string, a, b bound) {
		s.Invalid(path.Child(field).Key(string(name)), "", value, fmt.Sprintf(format, a.q.String(), b.q.String()))
	}
	if least.above(most) {
		wrong("min", least.q, "min value %s is greater than max value %s", least, most)
	}
	if least.above(request) {
		wrong("defaultRequest", request.q, "min value %s is greater than default request value %s", least, request)
	}
	if request.above(most) {
		wrong("defaultRequest", request.q, "default request value %s is greater than max value %s", request, most)
	}
	if request.above(limit) {
		wrong("defaultRequest", request.q, "default request value %s is greater than default limit value %s", request, limit)
	}
	if least.above(limit) {
		wrong("default", least.q, "min value %s is greater than default value %s", least, limit)
	}
	if limit.above(most) {
		wrong("default", most.q, "default value %s is greater than max value %s", limit, most)
	}
	s.validateRatio(boundOf(item.MaxLimitRequestRatio, name), least, most, path.Child("maxLimitRequestRatio").Key(string(name)))
	if !overcommits(name) && limit.set && request.set && limit.q.Cmp(request.q) != 0 {
		s.Invalid(path.Child("defaultRequest").Key(string(name)), "", request.q, fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", limit.q.String(), request.q.String(), name))
	}
}

func (s *specCheck) validateRatio(ratio, least, most bound, path *field.Path) {
	if !ratio.set {
		return
	}
	if ratio.q.CmpInt64(1) < 0 {
		s.Invalid(path, "", ratio.q, fmt.Sprintf("ratio %s is less than 1", ratio.q.String()))
	}
	if !least.set || !most.set {
		return
	}
	if limit := most.q.AsApproximateFloat64() / least.q.AsApproximateFloat64(); ratio.q.AsApproximateFloat64() > limit {
		s.Invalid(path, "", ratio.q, fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.q.String(), limit))
	}
}
