package authz

import (
	"slices"
	"strings"
)

// Rule allows some verbs on some resources or paths, read as a rule of RBAC
// is: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
// An Authorizer's rules only ever allow; what none allows is refused.
type Rule struct {
	Verbs     []string // "*" is all
	Groups    []string // "*" is all; "" is the core group
	Resources []string // "pods", "pods/log", "*/status", "*"
	// Names, when not nil, are the only objects meant.
	Names []string
	// Namespaces, when not nil, are the only ones meant.
	Namespaces []string
	// Paths of what is no resource: "/healthz", "/openapi/*".
	Paths []string
}

// Role is a set of rules and whom it is given to.
type Role struct {
	Name   string // as upstream calls it, where upstream has it
	Users  []string
	Groups []string
	Rules  []Rule
}

func (r *Role) given(a *Attributes) bool {
	return slices.Contains(r.Users, a.User.Name) || slices.ContainsFunc(r.Groups, a.User.InGroup)
}

// Allows tells whether the rule allows what a asks.
func (r *Rule) Allows(a *Attributes) bool {
	if !oneOf(r.Verbs, a.Verb) {
		return false
	}
	if !a.IsResource {
		return slices.ContainsFunc(r.Paths, func(p string) bool { return pathMatches(p, a.Path) })
	}
	return oneOf(r.Groups, a.Group) &&
		slices.ContainsFunc(r.Resources, func(res string) bool { return resourceMatches(res, a) }) &&
		(r.Names == nil || slices.Contains(r.Names, a.Name)) &&
		(r.Namespaces == nil || slices.Contains(r.Namespaces, a.Namespace))
}

func oneOf(list []string, s string) bool {
	return slices.Contains(list, s) || slices.Contains(list, "*")
}

func pathMatches(rule, path string) bool {
	if prefix, ok := strings.CutSuffix(rule, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return rule == path
}

func resourceMatches(rule string, a *Attributes) bool {
	if rule == "*" {
		return true
	}
	resource, sub, _ := strings.Cut(rule, "/")
	return sub == a.Subresource && (resource == a.Resource || resource == "*" && sub != "")
}
