package coordination

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func lease() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "leases"}, Kind: "Lease", Singular: "lease",
		Namespaced:          true,
		StoragePrefix:       "/registry/leases/",
		Versions:            []kinds.Version{strategy.Version[coordinationv1.Lease, coordinationv1.LeaseList](v1, nil)},
		AllowCreateOnUpdate: true,
		// A lease is a lock: who has not seen the last change must not win.
		AllowUnconditionalUpdate: false,
		Validate:                 strategy.Validate(validateLease),
		ValidateUpdate:           strategy.ValidateUpdate(func(l, _ *coordinationv1.Lease) field.ErrorList { return validateLease(l) }),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Holder", "string", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"], func(l *coordinationv1.Lease) any {
				if l.Spec.HolderIdentity == nil {
					return ""
				}
				return *l.Spec.HolderIdentity
			}),
			strategy.Age(),
		},
	}
}

func validateLease(l *coordinationv1.Lease) field.ErrorList {
	var c check.Errors
	spec := &l.Spec
	if d := spec.LeaseDurationSeconds; d != nil && *d <= 0 {
		c.Invalid(field.NewPath("spec"), "leaseDurationSeconds", *d, "must be greater than 0")
	}
	if n := spec.LeaseTransitions; n != nil && *n < 0 {
		c.Invalid(field.NewPath("spec"), "leaseTransitions", *n, "must be greater than or equal to 0")
	}
	if s := spec.Strategy; s != nil {
		// The doubled name is in upstream's path.
		p := field.NewPath("spec", "strategy")
		if strings.Contains(string(*s), "/") {
			c.Qualified(p, "strategy", string(*s))
		} else {
			check.Among(&c, p, "strategy", *s, coordinationv1.OldestEmulationVersion)
		}
	}
	if h := spec.PreferredHolder; h != nil && *h != "" && (spec.Strategy == nil || *spec.Strategy == "") {
		c.Forbidden(field.NewPath("spec"), "preferredHolder", "may only be specified if `strategy` is defined")
	}
	return c.List
}
