package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

func (s *specCheck) validateAffinity(a *corev1.Affinity, path *field.Path) {
	if na := a.NodeAffinity; na != nil {
		p := path.Child("nodeAffinity")
		if na.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			ValidateNodeSelector(&s.Errors, na.RequiredDuringSchedulingIgnoredDuringExecution, p.Child(required))
		}
		for i, term := range na.PreferredDuringSchedulingIgnoredDuringExecution {
			p := p.Child(preferred).Index(i)
			s.weight(term.Weight, p)
			// Values that no label can have do no harm in a preference.
			validateNodeTerm(&s.Errors, &term.Preference, p.Child("preference"), false)
		}
	}
	if pa := a.PodAffinity; pa != nil {
		s.validatePodTerms(pa.RequiredDuringSchedulingIgnoredDuringExecution, pa.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if pa := a.PodAntiAffinity; pa != nil {
		s.validatePodTerms(pa.RequiredDuringSchedulingIgnoredDuringExecution, pa.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
}

func (s *specCheck) weight(weight int32, path *field.Path) {
	if weight < 1 || weight > 100 {
		s.Invalid(path, "weight", weight, "must be in the range 1-100")
	}
}

// ValidateNodeSelector checks a choice of nodes, of pods and of volumes.
func ValidateNodeSelector(c *check.Errors, sel *corev1.NodeSelector, path *field.Path) {
	if len(sel.NodeSelectorTerms) == 0 {
		c.Required(path, "nodeSelectorTerms", "must have at least one node selector term")
	}
	for i := range sel.NodeSelectorTerms {
		validateNodeTerm(c, &sel.NodeSelectorTerms[i], path.Child("nodeSelectorTerms").Index(i), true)
	}
}

func validateNodeTerm(c *check.Errors, term *corev1.NodeSelectorTerm, path *field.Path, values bool) {
	for i := range term.MatchExpressions {
		validateNodeExpression(c, &term.MatchExpressions[i], path.Child("matchExpressions").Index(i), values)
	}
	for i := range term.MatchFields {
		r, p := &term.MatchFields[i], path.Child("matchFields").Index(i)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(r.Values) != 1 {
				c.Required(p, "values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
			}
		default:
			c.Invalid(p, "operator", r.Operator, "not a valid selector operator")
		}
		if r.Key != metav1.ObjectNameField {
			c.Invalid(p, "key", r.Key, "not a valid field selector key")
			continue
		}
		for j, v := range r.Values {
			c.Subdomain(p.Child("values").Index(j), "", v)
		}
	}
}

func validateNodeExpression(c *check.Errors, r *corev1.NodeSelectorRequirement, path *field.Path, values bool) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			c.Required(path, "values", "must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			c.Forbidden(path, "values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			c.Required(path, "values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		c.Invalid(path, "operator", r.Operator, "not a valid selector operator")
	}
	c.Qualified(path, "key", r.Key)
	if values {
		for i, v := range r.Values {
			c.Text(path.Child("values").Index(i), "", v, utilvalidation.IsValidLabelValue(v))
		}
	}
}

func (s *specCheck) validatePodTerms(must []corev1.PodAffinityTerm, may []corev1.WeightedPodAffinityTerm, path *field.Path) {
	for i := range must {
		s.validatePodTerm(&must[i], path.Child(required).Index(i))
	}
	for i := range may {
		p := path.Child(preferred).Index(i)
		s.weight(may[i].Weight, p)
		s.validatePodTerm(&may[i].PodAffinityTerm, p.Child("podAffinityTerm"))
	}
}

func (s *specCheck) validatePodTerm(t *corev1.PodAffinityTerm, path *field.Path) {
	var opts metavalidation.LabelSelectorValidationOptions
	s.Add(metavalidation.ValidateLabelSelector(t.LabelSelector, opts, path.Child("labelSelector")))
	s.Add(metavalidation.ValidateLabelSelector(t.NamespaceSelector, opts, path.Child("namespaceSelector")))
	for _, ns := range t.Namespaces {
		s.Text(path, "namespace", ns, validation.ValidateNamespaceName(ns, false))
	}
	s.labelKeys(t.MatchLabelKeys, t.LabelSelector, path, "matchLabelKeys")
	s.labelKeys(t.MismatchLabelKeys, t.LabelSelector, path, "mismatchLabelKeys")
	s.keysRepeated(t, path)
	if t.TopologyKey == "" {
		s.Required(path, "topologyKey", "can not be empty")
	}
	s.Qualified(path, "topologyKey", t.TopologyKey)
}

func (s *specCheck) labelKeys(keys []string, sel *metav1.LabelSelector, path *field.Path, name string) {
	if len(keys) == 0 {
		return
	}
	if sel == nil {
		s.Forbidden(path, name, "must not be specified when labelSelector is not set")
		return
	}
	for i, key := range keys {
		s.Qualified(path.Child(name).Index(i), "", key)
	}
}

// keysRepeated: each of matchLabelKeys has become an expression at the end of
// the selector; what selects by the same key besides is a mistake.
func (s *specCheck) keysRepeated(t *corev1.PodAffinityTerm, path *field.Path) {
	if t.LabelSelector != nil && len(t.MatchLabelKeys) > 0 {
		var used check.Unique[string]
		for key := range t.LabelSelector.MatchLabels {
			used.Seen(key)
		}
		for _, e := range t.LabelSelector.MatchExpressions {
			if !used.Seen(e.Key) {
				continue
			}
			for i := len(t.MatchLabelKeys) - 1; i >= 0; i-- {
				if t.MatchLabelKeys[i] == e.Key {
					s.Invalid(path.Index(i), "", e.Key, "exists in both matchLabelKeys and labelSelector")
					break
				}
			}
		}
	}
	for i, key := range t.MatchLabelKeys {
		if slices.Contains(t.MismatchLabelKeys, key) {
			s.Invalid(path.Child("matchLabelKeys").Index(i), "", key, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
}
