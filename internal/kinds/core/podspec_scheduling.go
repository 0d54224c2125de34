package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

const notPositive = "must be greater than zero"

// validateScheduling checks what tells the scheduler where and when.
func (s *specCheck) validateScheduling(path *field.Path) {
	for i, gate := range s.spec.ReadinessGates {
		s.Qualified(path.Child("readinessGates").Index(i), "conditionType", string(gate.ConditionType))
	}
	var gates check.Unique[string]
	for i, gate := range s.spec.SchedulingGates {
		p := path.Child("schedulingGates").Index(i)
		s.Qualified(p, "", gate.Name)
		if gates.Seen(gate.Name) {
			s.Duplicate(p, "", gate.Name)
		}
	}
	for i := range s.spec.TopologySpreadConstraints {
		s.validateSpread(i, path.Child("topologySpreadConstraints").Index(i))
	}
	if len(s.spec.Tolerations) > 0 {
		ValidateTolerations(&s.Errors, s.spec.Tolerations, path.Child("tolerations"))
	}
}

func (s *specCheck) validateSpread(index int, path *field.Path) {
	spread := &s.spec.TopologySpreadConstraints[index]
	if spread.MaxSkew <= 0 {
		s.Invalid(path, "maxSkew", spread.MaxSkew, notPositive)
	}
	if spread.TopologyKey == "" {
		s.Required(path, "topologyKey", "can not be empty")
	}
	check.Among(&s.Errors, path, "whenUnsatisfiable", spread.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
	for _, later := range s.spec.TopologySpreadConstraints[index+1:] {
		if later.TopologyKey == spread.TopologyKey && later.WhenUnsatisfiable == spread.WhenUnsatisfiable {
			s.Duplicate(path, "{topologyKey, whenUnsatisfiable}", fmt.Sprintf("{%v, %v}", spread.TopologyKey, spread.WhenUnsatisfiable))
			break
		}
	}
	if spread.MinDomains != nil {
		if *spread.MinDomains <= 0 {
			s.Invalid(path, "minDomains", *spread.MinDomains, notPositive)
		}
		if spread.WhenUnsatisfiable != corev1.DoNotSchedule {
			s.Invalid(path, "minDomains", *spread.MinDomains, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, spread.WhenUnsatisfiable))
		}
	}
	if p := spread.NodeAffinityPolicy; p != nil {
		check.Among(&s.Errors, path, "nodeAffinityPolicy", *p, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
	}
	if p := spread.NodeTaintsPolicy; p != nil {
		check.Among(&s.Errors, path, "nodeTaintsPolicy", *p, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
	}
	if len(spread.MatchLabelKeys) > 0 {
		s.labelKeys(spread.MatchLabelKeys, spread.LabelSelector, path, "matchLabelKeys")
	}
	s.Add(metavalidation.ValidateLabelSelector(spread.LabelSelector, metavalidation.LabelSelectorValidationOptions{}, path.Child("labelSelector")))
}

// ValidateTolerations checks tolerations of a pod, or of a class of pods.
func ValidateTolerations(c *check.Errors, list []corev1.Toleration, path *field.Path) {
	for i := range list {
		t, p := &list[i], path.Index(i)
		if t.Key != "" {
			c.Qualified(p, "key", t.Key)
		} else if t.Operator != corev1.TolerationOpExists {
			c.Invalid(p, "operator", t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			c.Invalid(p, "effect", t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if bad := validation.IsValidLabelValue(t.Value); len(bad) > 0 {
				c.Invalid(p, "operator", t.Value, strings.Join(bad, ";"))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				c.Invalid(p, "operator", t.Value, "value must be empty when `operator` is 'Exists'")
			}
		default:
			check.Among(c, p, "operator", t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)
		}
		if t.Effect != "" {
			validateEffect(c, p, t.Effect)
		}
	}
}

func validateEffect(c *check.Errors, path *field.Path, effect corev1.TaintEffect) {
	check.Among(c, path, "effect", effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
}
