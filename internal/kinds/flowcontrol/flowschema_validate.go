package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// https://kubernetes.io/docs/concepts/cluster-administration/flow-control/

const (
	maxPrecedence = 10000
	exempt        = "exempt"
	all           = "*"
)

func validateFlowSchema(s *flowcontrolv1.FlowSchema) field.ErrorList {
	var c check.Errors
	spec, path := &s.Spec, field.NewPath("spec")
	switch n := spec.MatchingPrecedence; {
	case n <= 0:
		c.Invalid(path, "matchingPrecedence", n, "must be a positive value")
	case n > maxPrecedence:
		c.Invalid(path, "matchingPrecedence", n, fmt.Sprintf("must not be greater than %v", maxPrecedence))
	case n == 1 && s.Name != exempt:
		c.Invalid(path, "matchingPrecedence", n, "only the schema named 'exempt' may have matchingPrecedence 1")
	}
	if m := spec.DistinguisherMethod; m != nil {
		check.Among(&c, path.Child("distinguisherMethod"), "type", m.Type, flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType)
	}
	if name := spec.PriorityLevelConfiguration.Name; name == "" {
		c.Required(path.Child("priorityLevelConfiguration"), "name", "must reference a priority level")
	} else {
		c.Subdomain(path.Child("priorityLevelConfiguration"), "name", name)
	}
	for i := range spec.Rules {
		validateFlowRules(&c, &spec.Rules[i], path.Child("rules").Index(i))
	}
	return c.List
}

func validateFlowRules(c *check.Errors, r *flowcontrolv1.PolicyRulesWithSubjects, path *field.Path) {
	if len(r.Subjects) == 0 {
		c.Required(path, "subjects", "subjects must contain at least one value")
	}
	for i := range r.Subjects {
		validateFlowSubject(c, &r.Subjects[i], path.Child("subjects").Index(i))
	}
	if len(r.ResourceRules)+len(r.NonResourceRules) == 0 {
		c.Required(path, "", "at least one of resourceRules and nonResourceRules has to be non-empty")
	}
	for i := range r.ResourceRules {
		rule, p := &r.ResourceRules[i], path.Child("resourceRules").Index(i)
		validateFlowVerbs(c, rule.Verbs, p)
		validateMembers(c, rule.APIGroups, p, "apiGroups", "resource rules must supply at least one api group")
		validateMembers(c, rule.Resources, p, "resources", "resource rules must supply at least one resource")
		if len(rule.Namespaces) == 0 && !rule.ClusterScope {
			c.Required(p, "namespaces", "resource rules that are not cluster scoped must supply at least one namespace")
		} else if slices.Contains(rule.Namespaces, all) && len(rule.Namespaces) > 1 {
			c.Invalid(p, "namespaces", rule.Namespaces, "if '*' is present, must not specify other namespaces")
		}
		for j, name := range rule.Namespaces {
			if name != all {
				for _, msg := range validation.IsDNS1123Label(name) {
					c.Invalid(p.Child("namespaces").Index(j), "", name, "not a valid namespace name: "+msg)
				}
			}
		}
	}
	for i := range r.NonResourceRules {
		rule, p := &r.NonResourceRules[i], path.Child("nonResourceRules").Index(i)
		validateFlowVerbs(c, rule.Verbs, p)
		switch {
		case len(rule.NonResourceURLs) == 0:
			c.Required(p, "nonResourceURLs", "nonResourceURLs must contain at least one value")
		case len(rule.NonResourceURLs) > 1 && slices.Contains(rule.NonResourceURLs, all):
			c.Invalid(p, "nonResourceURLs", rule.NonResourceURLs, "if '*' is present, must not specify other non-resource URLs")
		default:
			for j, url := range rule.NonResourceURLs {
				validateURL(c, url, p.Child("nonResourceURLs").Index(j))
			}
		}
	}
}

func validateMembers(c *check.Errors, list []string, path *field.Path, name, required string) {
	if len(list) == 0 {
		c.Required(path, name, required)
	} else if len(list) > 1 && slices.Contains(list, all) {
		what := "api groups"
		if name == "resources" {
			what = "resources"
		}
		c.Invalid(path, name, list, "if '*' is present, must not specify other "+what)
	}
}

var flowVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func validateFlowVerbs(c *check.Errors, verbs []string, path *field.Path) {
	switch {
	case len(verbs) == 0:
		c.Required(path, "verbs", "verbs must contain at least one value")
	case len(verbs) > 1 && slices.Contains(verbs, all):
		c.Invalid(path, "verbs", verbs, "if '*' is present, must not specify other verbs")
	case !slices.Contains(verbs, all):
		for _, verb := range verbs {
			if !slices.Contains(flowVerbs, verb) {
				c.Add(field.ErrorList{field.NotSupported(path.Child("verbs"), verbs, flowVerbs)})
				break
			}
		}
	}
}

func validateURL(c *check.Errors, url string, path *field.Path) {
	if url == all {
		return
	}
	switch {
	case url == "":
		c.Invalid(path, "", url, "must not be empty")
	case strings.Contains(url, " "):
		c.Invalid(path, "", url, "must not contain white-space")
	case url[0] != '/':
		c.Invalid(path, "", url, "must start with slash")
	case url != "/" && strings.Contains(url, "//"):
		c.Invalid(path, "", url, "must not contain double slash")
	case strings.Contains(url[:len(url)-1], "*") || strings.HasSuffix(url, "*") && !strings.HasSuffix(url, "/*"):
		c.Invalid(path, "", url, "wildcard can only do suffix matching")
	}
}

func validateFlowSubject(c *check.Errors, s *flowcontrolv1.Subject, path *field.Path) {
	given := func(kind flowcontrolv1.SubjectKind, name string, there bool) {
		switch {
		case s.Kind == kind && !there:
			c.Required(path, name, fmt.Sprintf("%s is required when subject kind is '%s'", name, kind))
		case s.Kind != kind && there:
			c.Forbidden(path, name, fmt.Sprintf("%s is forbidden when subject kind is not '%s'", name, kind))
		}
	}
	switch s.Kind {
	case flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser, flowcontrolv1.SubjectKindGroup:
	default:
		check.Among(c, path, "kind", s.Kind, flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser)
	}
	given(flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil)
	given(flowcontrolv1.SubjectKindUser, "user", s.User != nil)
	given(flowcontrolv1.SubjectKindGroup, "group", s.Group != nil)
	if a := s.ServiceAccount; a != nil {
		p := path.Child("serviceAccount")
		switch {
		case a.Name == "":
			c.Required(p, "name", "")
		case a.Name != all:
			c.Subdomain(p, "name", a.Name)
		}
		if a.Namespace == "" {
			c.Required(p, "namespace", "must specify namespace for service account")
		} else {
			c.Label(p, "namespace", a.Namespace)
		}
	}
	if s.User != nil {
		c.NotEmpty(path.Child("user"), "name", s.User.Name)
	}
	if s.Group != nil {
		c.NotEmpty(path.Child("group"), "name", s.Group.Name)
	}
}
