package autoscaling

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// Limits of scaling rules, in seconds.
const (
	maxWindow = 3600
	maxPeriod = 1800
)

// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/
func validate(h *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	c := &checker{}
	spec, path := &h.Spec, field.NewPath("spec")
	if n := spec.MinReplicas; n != nil && *n < 1 {
		c.Invalid(path, "minReplicas", *n, "must be greater than or equal to 1")
	}
	if spec.MaxReplicas < 1 {
		c.Invalid(path, "maxReplicas", spec.MaxReplicas, "must be greater than 0")
	}
	if n := spec.MinReplicas; n != nil && spec.MaxReplicas < *n {
		c.Invalid(path, "maxReplicas", spec.MaxReplicas, "must be greater than or equal to `minReplicas`")
	}
	c.reference(&spec.ScaleTargetRef, path.Child("scaleTargetRef"))
	for i := range spec.Metrics {
		c.metric(&spec.Metrics[i], path.Child("metrics").Index(i))
	}
	if b := spec.Behavior; b != nil {
		c.rules(b.ScaleUp, path.Child("behavior", "scaleUp"))
		c.rules(b.ScaleDown, path.Child("behavior", "scaleDown"))
	}
	return c.List
}

func validateStatus(h, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var c check.Errors
	c.NonNegative(field.NewPath("status"), "currentReplicas", int64(h.Status.CurrentReplicas))
	c.NonNegative(field.NewPath("status"), "desiredReplicas", int64(h.Status.DesiredReplicas))
	return c.List
}

type checker struct{ check.Errors }

func (c *checker) reference(ref *autoscalingv2.CrossVersionObjectReference, path *field.Path) {
	c.NamedSegment(path, "kind", ref.Kind, "")
	c.NamedSegment(path, "name", ref.Name, "")
}

func (c *checker) rules(r *autoscalingv2.HPAScalingRules, path *field.Path) {
	if r == nil {
		return
	}
	if n := r.StabilizationWindowSeconds; n != nil && *n < 0 {
		c.Invalid(path, "stabilizationWindowSeconds", *n, "must be greater than or equal to zero")
	} else if n != nil && *n > maxWindow {
		c.Invalid(path, "stabilizationWindowSeconds", *n, fmt.Sprintf("must be less than or equal to %v", maxWindow))
	}
	if p := r.SelectPolicy; p != nil {
		check.Among(&c.Errors, path, "selectPolicy", *p, autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)
	}
	if len(r.Policies) == 0 {
		c.Required(path, "policies", "must specify at least one Policy")
	}
	for i, policy := range r.Policies {
		p := path.Child("policies").Index(i)
		check.Among(&c.Errors, p, "type", policy.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
		if policy.Value <= 0 {
			c.Invalid(p, "value", policy.Value, "must be greater than zero")
		}
		if policy.PeriodSeconds <= 0 {
			c.Invalid(p, "periodSeconds", policy.PeriodSeconds, "must be greater than zero")
		} else if policy.PeriodSeconds > maxPeriod {
			c.Invalid(p, "periodSeconds", policy.PeriodSeconds, fmt.Sprintf("must be less than or equal to %v", maxPeriod))
		}
	}
	if q := r.Tolerance; q != nil && q.Sign() < 0 {
		c.Invalid(path, "tolerance", q.String(), apivalidation.IsNegativeErrorMsg)
	}
}

func (c *checker) metric(m *autoscalingv2.MetricSpec, path *field.Path) {
	if m.Type == "" {
		c.Required(path, "type", "must specify a metric source type")
	} else {
		check.Among(&c.Errors, path, "type", m.Type, autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
			autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType)
	}
	if m.Object != nil {
		c.object(m.Object, path.Child("object"))
	}
	if m.External != nil {
		c.external(m.External, path.Child("external"))
	}
	if m.Pods != nil {
		c.pods(m.Pods, path.Child("pods"))
	}
	if m.Resource != nil {
		c.resource(string(m.Resource.Name), &m.Resource.Target, path.Child("resource"))
	}
	if m.ContainerResource != nil {
		c.container(m.ContainerResource, path.Child("containerResource"))
	}
	given := 0
	for _, source := range sources(m) {
		if source.there {
			given++
		}
	}
	for _, source := range sources(m) {
		switch {
		case source.of == m.Type && !source.there:
			c.Required(path, source.name, "must populate information for the given metric source")
		case source.of != m.Type && source.there && given > 1:
			c.Forbidden(path, source.name, "must populate the given metric source only")
		}
	}
}

type source struct {
	of    autoscalingv2.MetricSourceType
	name  string
	there bool
}

func sources(m *autoscalingv2.MetricSpec) [5]source {
	return [...]source{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil},
	}
}

const eitherTarget = "must set either a target value for metric or a per-pod target"

func (c *checker) object(o *autoscalingv2.ObjectMetricSource, path *field.Path) {
	c.reference(&o.DescribedObject, path.Child("describedObject"))
	c.identifier(&o.Metric, path.Child("metric"))
	c.target(&o.Target, path.Child("target"))
	if o.Target.Value == nil && o.Target.AverageValue == nil {
		c.Required(path.Child("target"), "averageValue", eitherTarget)
	}
}

func (c *checker) external(e *autoscalingv2.ExternalMetricSource, path *field.Path) {
	c.identifier(&e.Metric, path.Child("metric"))
	c.target(&e.Target, path.Child("target"))
	if e.Target.Value == nil && e.Target.AverageValue == nil {
		c.Required(path.Child("target"), "averageValue", eitherTarget)
	}
	if e.Target.Value != nil && e.Target.AverageValue != nil {
		c.Forbidden(path.Child("target"), "value", "may not set both a target value for metric and a per-pod target")
	}
}

func (c *checker) pods(p *autoscalingv2.PodsMetricSource, path *field.Path) {
	c.identifier(&p.Metric, path.Child("metric"))
	c.target(&p.Target, path.Child("target"))
	if v := p.Target.AverageValue; v == nil || v.Sign() != 1 {
		c.Required(path.Child("target"), "averageValue", "must specify a positive target averageValue")
	}
}

func (c *checker) container(r *autoscalingv2.ContainerResourceMetricSource, path *field.Path) {
	if r.Container == "" {
		c.Required(path, "container", "must specify a container")
	}
	c.resource(string(r.Name), &r.Target, path)
}

func (c *checker) resource(name string, t *autoscalingv2.MetricTarget, path *field.Path) {
	if name == "" {
		c.Required(path, "name", "must specify a resource name")
	}
	c.target(t, path.Child("target"))
	switch use, value := t.AverageUtilization != nil, t.AverageValue != nil; {
	case !use && !value:
		c.Required(path.Child("target"), "averageUtilization", "must set either a target raw value or a target utilization")
	case use && value:
		c.Forbidden(path.Child("target"), "averageValue", "may not set both a target raw value and a target utilization")
	}
}

func (c *checker) target(t *autoscalingv2.MetricTarget, path *field.Path) {
	switch t.Type {
	case "":
		c.Required(path, "type", "must specify a metric target type")
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		c.Invalid(path, "type", t.Type, "must be either Utilization, Value, or AverageValue")
	}
	if v := t.Value; v != nil && v.Sign() != 1 {
		c.Invalid(path, "value", v, "must be positive")
	}
	if v := t.AverageValue; v != nil && v.Sign() != 1 {
		c.Invalid(path, "averageValue", v, "must be positive")
	}
	if n := t.AverageUtilization; n != nil && *n < 1 {
		c.Invalid(path, "averageUtilization", *n, "must be greater than 0")
	}
}

func (c *checker) identifier(m *autoscalingv2.MetricIdentifier, path *field.Path) {
	c.NamedSegment(path, "name", m.Name, "must specify a metric name")
}
