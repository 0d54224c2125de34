package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func ingressClass() *kinds.Kind {
	split := strategy.Counted[networkingv1.IngressClass]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "ingressclasses"}, Kind: "IngressClass", Singular: "ingressclass",
		StoragePrefix:            "/registry/ingressclasses/",
		Versions:                 []kinds.Version{strategy.Version[networkingv1.IngressClass, networkingv1.IngressClassList](v1, defaultIngressClass)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateIngressClass),
		ValidateUpdate: strategy.ValidateUpdate(func(n, old *networkingv1.IngressClass) field.ErrorList {
			c := check.Errors{List: validateIngressClass(n)}
			if n.Spec.Controller != old.Spec.Controller {
				c.Immutable(field.NewPath("spec"), "controller", n.Spec.Controller)
			}
			return c.List
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Controller", "string", "Controller that is responsible for handling this class", func(o *networkingv1.IngressClass) any { return o.Spec.Controller }),
			strategy.Column("Parameters", "string", "A reference to a resource with additional parameters", func(o *networkingv1.IngressClass) any { return parameters(o.Spec.Parameters) }),
			strategy.Age(),
		},
	}
}

func defaultIngressClass(c *networkingv1.IngressClass) {
	if p := c.Spec.Parameters; p != nil && p.Scope == nil {
		p.Scope = new(networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

func parameters(ref *networkingv1.IngressClassParametersReference) string {
	if ref == nil {
		return "<none>"
	}
	kind := ref.Kind
	if ref.APIGroup != nil && *ref.APIGroup != "" {
		kind += "." + *ref.APIGroup
	}
	return kind + "/" + ref.Name
}

const maxController = 250

func validateIngressClass(n *networkingv1.IngressClass) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	if len(n.Spec.Controller) > maxController {
		c.TooLong(path, "controller", maxController)
	}
	c.Add(validation.IsDomainPrefixedPath(path.Child("controller"), n.Spec.Controller))
	if n.Spec.Parameters != nil {
		validateParameters(&c, n.Spec.Parameters, path.Child("parameters"))
	}
	return c.List
}

func validateParameters(c *check.Errors, ref *networkingv1.IngressClassParametersReference, path *field.Path) {
	validateReference(c, ref.APIGroup, ref.Kind, ref.Name, path)
	if ref.Scope == nil {
		c.Required(path, "scope", "")
		return
	}
	const cluster, namespace = networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace
	check.Among(c, path, "scope", *ref.Scope, cluster, namespace)
	switch {
	case *ref.Scope == namespace && ref.Namespace == nil:
		c.Required(path, "namespace", "`parameters.scope` is set to 'Namespace'")
	case *ref.Scope == namespace:
		c.Label(path, "namespace", *ref.Namespace)
	case *ref.Scope == cluster && ref.Namespace != nil:
		c.Forbidden(path, "namespace", "`parameters.scope` is set to 'Cluster'")
	}
}
