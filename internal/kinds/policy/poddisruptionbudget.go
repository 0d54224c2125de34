package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
		Columns: strategy.NameAge(),
	}
}
