package apps

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

// Rules that the kinds of this group share.

// validateSelectorAndTemplate checks both, and that the one selects the pods
// of the other. kind stands in the messages about the selector, maker in those
// about pods.
func validateSelectorAndTemplate(c *check.Errors, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, path *field.Path, kind, maker string) {
	sel := validateSelector(c, selector, path, kind)
	p := path.Child("template")
	if sel != nil && !sel.Empty() && !sel.Matches(labels.Set(template.Labels)) {
		c.Invalid(p.Child("metadata"), "labels", template.Labels, "`selector` does not match template `labels`")
	}
	core.ValidatePodTemplateSpec(c, template, p)
	alwaysRuns(c, template, p, maker)
}

// validateSelector returns what selector means, nil if it means nothing.
func validateSelector(c *check.Errors, selector *metav1.LabelSelector, path *field.Path, kind string) labels.Selector {
	if selector == nil {
		c.Required(path, "selector", "")
		return nil
	}
	c.Add(metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, path.Child("selector")))
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		c.Invalid(path, "selector", selector, "empty selector is invalid for "+kind)
	}
	sel, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		c.Invalid(path, "selector", selector, "invalid label selector")
		return nil
	}
	return sel
}

// alwaysRuns: pods that are kept running by number never end by themselves.
func alwaysRuns(c *check.Errors, template *corev1.PodTemplateSpec, path *field.Path, kind string) {
	check.Among(c, path.Child("spec"), "restartPolicy", template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	if template.Spec.ActiveDeadlineSeconds != nil {
		c.Forbidden(path.Child("spec"), "activeDeadlineSeconds", "activeDeadlineSeconds in "+kind+" is not Supported")
	}
}

func selectorKept(c *check.Errors, now, was *metav1.LabelSelector) {
	if !apiequality.Semantic.DeepEqual(now, was) {
		c.Immutable(field.NewPath("spec"), "selector", now)
	}
}

// noMore says that a number of pods is a part of another.
func noMore(c *check.Errors, path *field.Path, name string, n, of int32, what string) {
	if n > of {
		c.Invalid(path, name, n, "cannot be greater than "+what)
	}
}

// onlyRises refuses a number below what it was.
func onlyRises(c *check.Errors, path *field.Path, name string, now, was *int32) {
	if n := strategy.Count(now); was != nil && n < int64(*was) {
		c.Invalid(path, name, n, "cannot be decremented")
	}
}

// amount is a number or a percentage; none is 0.
func amount(v *intstr.IntOrString) intstr.IntOrString {
	if v == nil {
		return intstr.IntOrString{}
	}
	return *v
}

// number of an amount: a percentage counts as its number.
func number(v intstr.IntOrString) int {
	if v.Type == intstr.Int {
		return int(v.IntVal)
	}
	n, _ := check.Percent(v)
	return n
}
