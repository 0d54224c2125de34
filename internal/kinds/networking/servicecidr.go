package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func serviceCIDR() *kinds.Kind {
	split := strategy.Of[networkingv1.ServiceCIDR]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "servicecidrs"}, Kind: "ServiceCIDR", Singular: "servicecidr",
		StoragePrefix:            "/registry/servicecidrs/",
		Versions:                 []kinds.Version{strategy.Version[networkingv1.ServiceCIDR, networkingv1.ServiceCIDRList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateServiceCIDR),
		ValidateUpdate:           strategy.ValidateUpdate(validateServiceCIDRUpdate),
		Subresources: map[string]*kinds.Subresource{
			"status": {
				Verbs: strategy.View(), PrepareUpdate: split.PrepareStatusOnly,
				ValidateUpdate: strategy.ValidateUpdate(func(s, _ *networkingv1.ServiceCIDR) field.ErrorList {
					return metavalidation.ValidateConditions(s.Status.Conditions, field.NewPath("status", "conditions"))
				}),
			},
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("CIDRs", "string", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"], func(o *networkingv1.ServiceCIDR) any { return strings.Join(o.Spec.CIDRs, ",") }),
			strategy.Age(),
		},
	}
}

const onePerFamily = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96"

func validateServiceCIDR(s *networkingv1.ServiceCIDR) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec", "cidrs")
	switch n := len(s.Spec.CIDRs); {
	case n == 0:
		c.Required(path, "", "at least one CIDR required")
	case n > 2:
		c.Invalid(path, "", s.Spec.CIDRs, "may only hold up to 2 values")
	case n == 2:
		dual, err := netutils.IsDualStackCIDRStrings(s.Spec.CIDRs)
		if err != nil {
			c.Invalid(path, "", s.Spec.CIDRs, err.Error())
		} else if !dual {
			c.Invalid(path, "", s.Spec.CIDRs, onePerFamily)
		}
	}
	for i, cidr := range s.Spec.CIDRs {
		c.Add(validation.IsValidCIDR(path.Index(i), cidr))
	}
	return c.List
}

// validateServiceCIDRUpdate: a range may get one of the other family beside
// it; addresses of the first are in use.
func validateServiceCIDRUpdate(s, old *networkingv1.ServiceCIDR) field.ErrorList {
	c := check.Errors{List: validateServiceCIDR(s)}
	path := field.NewPath("spec", "cidrs")
	now, was := s.Spec.CIDRs, old.Spec.CIDRs
	if len(now) != len(was) && !(len(was) == 1 && len(now) == 2) {
		c.Immutable(path, "", now)
		return c.List
	}
	for i := range was {
		if now[i] != was[i] {
			c.Immutable(path.Index(i), "", now[i])
		}
	}
	return c.List
}
