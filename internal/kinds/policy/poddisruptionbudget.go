package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func podDisruptionBudget() *kinds.Kind {
	split := strategy.Counted[policyv1.PodDisruptionBudget]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "poddisruptionbudgets"}, Kind: "PodDisruptionBudget", Singular: "poddisruptionbudget",
		ShortNames: []string{"pdb"}, Namespaced: true,
		StoragePrefix: "/registry/poddisruptionbudgets/",
		Versions:      []kinds.Version{strategy.Version[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](v1, nil)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
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
