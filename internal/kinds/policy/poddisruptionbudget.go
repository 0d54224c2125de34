package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func podDisruptionBudget() *kinds.Kind {
	split := strategy.Counted[policyv1.PodDisruptionBudget]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "poddisruptionbudgets"}, Kind: "PodDisruptionBudget", Singular: "poddisruptionbudget",
		ShortNames: []string{"pdb"}, Namespaced: true,
		StoragePrefix:  "/registry/poddisruptionbudgets/",
		Versions:       []kinds.Version{strategy.Version[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](v1, nil)},
		PrepareCreate:  split.PrepareCreate,
		PrepareUpdate:  split.PrepareUpdate,
		Validate:       strategy.Validate(validateBudget),
		ValidateUpdate: strategy.ValidateUpdate(func(b, _ *policyv1.PodDisruptionBudget) field.ErrorList { return validateBudget(b) }),
		Subresources: map[string]*kinds.Subresource{
			"status": {Verbs: strategy.View(), PrepareUpdate: split.PrepareStatus, ValidateUpdate: strategy.ValidateUpdate(validateBudgetStatus)},
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Min Available", "string", policyv1.PodDisruptionBudgetSpec{}.SwaggerDoc()["minAvailable"], func(o *policyv1.PodDisruptionBudget) any { return amount(o.Spec.MinAvailable) }),
			strategy.Column("Max Unavailable", "string", policyv1.PodDisruptionBudgetSpec{}.SwaggerDoc()["maxUnavailable"], func(o *policyv1.PodDisruptionBudget) any { return amount(o.Spec.MaxUnavailable) }),
			strategy.Column("Allowed Disruptions", "integer", "Calculated number of pods that may be disrupted at this time.", func(o *policyv1.PodDisruptionBudget) any { return int64(o.Status.DisruptionsAllowed) }),
			strategy.Age(),
		},
	}
}

func amount(v *intstr.IntOrString) any {
	if v == nil {
		return "N/A"
	}
	return v.String()
}

func validateBudget(b *policyv1.PodDisruptionBudget) field.ErrorList {
	var c check.Errors
	spec, path := &b.Spec, field.NewPath("spec")
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		c.Invalid(path, "", *spec, "minAvailable and maxUnavailable cannot be both set")
	}
	for _, a := range [...]struct {
		name  string
		value *intstr.IntOrString
	}{{"minAvailable", spec.MinAvailable}, {"maxUnavailable", spec.MaxUnavailable}} {
		if a.value != nil {
			c.Amount(path, a.name, *a.value)
			c.AtMostAll(path, a.name, *a.value)
		}
	}
	c.Selector(path, "selector", spec.Selector)
	if p := spec.UnhealthyPodEvictionPolicy; p != nil {
		check.Among(&c, path, "unhealthyPodEvictionPolicy", *p, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	}
	return c.List
}

func validateBudgetStatus(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	var c check.Errors
	s, path := &b.Status, field.NewPath("status")
	c.Add(metavalidation.ValidateConditions(s.Conditions, path.Child("conditions")))
	c.NonNegative(path, "disruptionsAllowed", int64(s.DisruptionsAllowed))
	c.NonNegative(path, "currentHealthy", int64(s.CurrentHealthy))
	c.NonNegative(path, "desiredHealthy", int64(s.DesiredHealthy))
	c.NonNegative(path, "expectedPods", int64(s.ExpectedPods))
	return c.List
}
