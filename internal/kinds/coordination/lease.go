package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func lease() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "leases"}, Kind: "Lease", Singular: "lease",
		Namespaced:               true,
		StoragePrefix:            "/registry/leases/",
		Versions:                 []kinds.Version{strategy.Version[coordinationv1.Lease, coordinationv1.LeaseList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Columns:                  strategy.NameAge(),
	}
}
