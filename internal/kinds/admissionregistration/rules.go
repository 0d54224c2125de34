package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/admissionregistration/expression"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// Rules about what webhooks and policies are asked about.
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/

type (
	rule  = admissionregistrationv1.Rule
	named = admissionregistrationv1.NamedRuleWithOperations
)

const star = "*"

// alone refuses "*" beside others.
func alone(c *check.Errors, list []string, path *field.Path, name, what string) {
	if len(list) == 0 {
		c.Required(path, name, "")
	} else if len(list) > 1 && slices.Contains(list, star) {
		c.Invalid(path, name, list, "if '*' is present, must not specify other "+what)
	}
}

func validateRule(c *check.Errors, operations []admissionregistrationv1.OperationType, r *rule, path *field.Path) {
	var verbs []string
	for _, o := range operations {
		verbs = append(verbs, string(o))
	}
	alone(c, verbs, path, "operations", "operations")
	for i, o := range operations {
		check.Among(c, path.Child("operations").Index(i), "", o, admissionregistrationv1.OperationAll, admissionregistrationv1.Connect, admissionregistrationv1.Create, admissionregistrationv1.Delete, admissionregistrationv1.Update)
	}
	alone(c, r.APIGroups, path, "apiGroups", "API groups")
	alone(c, r.APIVersions, path, "apiVersions", "API versions")
	for i, version := range r.APIVersions {
		c.NotEmpty(path.Child("apiVersions").Index(i), "", version)
	}
	validateResources(c, r.Resources, path.Child("resources"))
	if r.Scope != nil {
		check.Among(c, path, "scope", *r.Scope, admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope)
	}
}

// validateResources refuses names that others in the list mean as well.
func validateResources(c *check.Errors, list []string, path *field.Path) {
	if len(list) == 0 {
		c.Required(path, "", "")
	}
	var allSubs, allResources check.Unique[string]
	for i, name := range list {
		if name == "" {
			c.Required(path.Index(i), "", "")
			continue
		}
		if name == "*/*" && len(list) > 1 {
			c.Invalid(path, "", list, "if '*/*' is present, must not specify other resources")
		}
		resource, sub, ok := strings.Cut(name, "/")
		if !ok {
			continue
		}
		if allSubs.Has(resource) {
			c.Invalid(path.Index(i), "", name, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, name))
		}
		if allResources.Has(sub) {
			c.Invalid(path.Index(i), "", name, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, name))
		}
		if sub == star {
			allSubs.Seen(resource)
		}
		if resource == star {
			allResources.Seen(sub)
		}
	}
	if len(list) > 1 && slices.Contains(list, star) {
		for _, name := range list {
			if !strings.Contains(name, "/") && name != star {
				c.Invalid(path, "", list, "if '*' is present, must not specify other resources without subresources")
				break
			}
		}
	}
}

func validateFailurePolicy(c *check.Errors, p *admissionregistrationv1.FailurePolicyType, path *field.Path) {
	if p != nil {
		check.Among(c, path, "failurePolicy", *p, admissionregistrationv1.Fail, admissionregistrationv1.Ignore)
	}
}

func validateMatchPolicy(c *check.Errors, p *admissionregistrationv1.MatchPolicyType, path *field.Path) {
	if p != nil {
		check.Among(c, path, "matchPolicy", *p, admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)
	}
}

// maxConditions is how many conditions a webhook or a policy may have.
const maxConditions = 64

// validateConditions checks matchConditions. compile tells what is wrong with the text
// of one.
func validateConditions(c *check.Errors, list []admissionregistrationv1.MatchCondition, path *field.Path, compile func(*expression.Expression, *field.Path) field.ErrorList) {
	if len(list) > maxConditions {
		c.TooMany(path, "", len(list), maxConditions)
	}
	var names check.Unique[string]
	for i, condition := range list {
		p := path.Index(i)
		if e := expression.Condition(condition.Name, condition.Expression); e.Text == "" {
			c.Required(p, "expression", "")
		} else {
			c.Add(compile(e, p.Child("expression")))
		}
		if condition.Name == "" {
			c.Required(p, "name", "")
			continue
		}
		c.Qualified(p, "name", condition.Name)
		if names.Seen(condition.Name) {
			c.Duplicate(p, "name", condition.Name)
		}
	}
}

// validateMatch checks what a policy or a binding is for.
func validateMatch(c *check.Errors, m *admissionregistrationv1.MatchResources, path *field.Path) {
	if m.MatchPolicy == nil {
		c.Required(path, "matchPolicy", "")
	}
	validateMatchPolicy(c, m.MatchPolicy, path)
	for _, s := range [...]struct {
		name     string
		selector *metav1.LabelSelector
	}{{"namespaceSelector", m.NamespaceSelector}, {"labelSelector", m.ObjectSelector}} {
		if s.selector == nil {
			name := s.name
			if name == "labelSelector" {
				name = "objectSelector"
			}
			c.Required(path, name, "")
		} else {
			c.Selector(path, s.name, s.selector)
		}
	}
	validateNamedRules(c, m.ResourceRules, path.Child("resourceRules"))
	validateNamedRules(c, m.ExcludeResourceRules, path.Child("excludeResourceRules"))
}

func validateNamedRules(c *check.Errors, list []named, path *field.Path) {
	for i := range list {
		r, p := &list[i], path.Index(i)
		var names check.Unique[string]
		for j, name := range r.ResourceNames {
			at := p.Child("resourceNames").Index(j)
			c.Segment(at, "", name)
			if names.Seen(name) {
				c.Duplicate(at, "", name)
			}
		}
		validateRule(c, r.Operations, &r.Rule, p)
	}
}

func validateParamRef(c *check.Errors, r *admissionregistrationv1.ParamRef, path *field.Path) {
	switch {
	case r.Name != "" && r.Selector != nil:
		c.Forbidden(path, "name", "name and selector are mutually exclusive")
		c.Forbidden(path, "selector", "name and selector are mutually exclusive")
	case r.Name == "" && r.Selector == nil:
		c.Required(path, "", "one of name or selector must be specified")
	case r.Name != "":
		c.Segment(path, "name", r.Name)
	default:
		c.Selector(path, "selector", r.Selector)
	}
	if a := r.ParameterNotFoundAction; a == nil || *a == "" {
		c.Required(path, "parameterNotFoundAction", "")
	} else {
		check.Among(c, path, "parameterNotFoundAction", *a, admissionregistrationv1.AllowAction, admissionregistrationv1.DenyAction)
	}
}

func validateParamKind(c *check.Errors, k *admissionregistrationv1.ParamKind, path *field.Path) {
	if k.APIVersion == "" {
		c.Required(path, "apiVersion", "")
	} else if gv, err := schema.ParseGroupVersion(k.APIVersion); err != nil {
		c.Invalid(path, "apiVersion", k.APIVersion, err.Error())
	} else {
		if gv.Group != "" {
			c.Subdomain(path, "apiVersion", gv.Group)
		}
		c.Text(path, "apiVersion", gv.Version, validation.IsDNS1035Label(gv.Version))
	}
	if k.Kind == "" {
		c.Required(path, "kind", "")
	} else if bad := validation.IsDNS1035Label(strings.ToLower(k.Kind)); len(bad) > 0 {
		c.Invalid(path, "kind", k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(bad, ","))
	}
}
