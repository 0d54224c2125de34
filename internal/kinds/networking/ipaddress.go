package networking

import (
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func ipAddress() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "ipaddresses"}, Kind: "IPAddress", Singular: "ipaddress",
		ShortNames:               []string{"ip"},
		StoragePrefix:            "/registry/ipaddresses/",
		Versions:                 []kinds.Version{strategy.Version[networkingv1.IPAddress, networkingv1.IPAddressList](v1, nil)},
		AllowUnconditionalUpdate: true,
		ValidateName:             func(name string, _ bool) []string { return ipName(name) },
		Validate:                 strategy.Validate(validateIPAddress),
		ValidateUpdate: strategy.ValidateUpdate(func(ip, old *networkingv1.IPAddress) field.ErrorList {
			c := check.Errors{List: validateIPAddress(ip)}
			if !apiequality.Semantic.DeepEqual(ip.Spec.ParentRef, old.Spec.ParentRef) {
				c.Immutable(field.NewPath("spec"), "parentRef", ip.Spec.ParentRef)
			}
			return c.List
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("ParentRef", "string", "Reference to the parent object that owns this IPAddress", func(o *networkingv1.IPAddress) any { return parent(o.Spec.ParentRef) }),
		},
	}
}

func parent(ref *networkingv1.ParentReference) string {
	if ref == nil {
		return "<none>"
	}
	text := ref.Resource
	if ref.Group != "" {
		text += "." + ref.Group
	}
	if ref.Namespace != "" {
		return text + "/" + ref.Namespace + "/" + ref.Name
	}
	return text + "/" + ref.Name
}

// ipName wants an address in the one form that is its name.
func ipName(name string) []string {
	ip, err := netip.ParseAddr(name)
	switch {
	case err != nil || ip.Is4In6() || ip.Zone() != "":
		return []string{"must be a valid IP address"}
	case ip.String() != name:
		return []string{"must be a canonical format IP address"}
	}
	return nil
}

func validateIPAddress(ip *networkingv1.IPAddress) field.ErrorList {
	var c check.Errors
	ref, path := ip.Spec.ParentRef, field.NewPath("spec", "parentRef")
	if ref == nil {
		c.Required(path, "", "")
		return c.List
	}
	if ref.Group != "" {
		c.Subdomain(path, "group", ref.Group)
	}
	c.NamedSegment(path, "resource", ref.Resource, "")
	c.NamedSegment(path, "name", ref.Name, "")
	if ref.Namespace != "" {
		c.Segment(path, "namespace", ref.Namespace)
	}
	return c.List
}
