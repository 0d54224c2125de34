package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Lister tells what somebody may do in a namespace.
type Lister interface {
	RulesFor(a *Attributes) []Rule
}

// All joins what several listers tell.
type All []Lister

// RulesFor implements Lister.
func (l All) RulesFor(a *Attributes) (out []Rule) {
	for _, one := range l {
		out = append(out, one.RulesFor(a)...)
	}
	return out
}

// Escalation tells whether somebody may write a role, or a binding to one:
// only who may do all that the role allows, or holds the verb "escalate" on
// roles or "bind" on the role itself. Else everybody who may write roles
// would be an administrator.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
type Escalation struct {
	Authorizer Authorizer
	Rules      Lister
}

// MayEscalate asks for the verb: by "escalate" one may write any role, by
// "bind" give any.
func (e *Escalation) MayEscalate(ctx context.Context, a Attributes, verb string) bool {
	a.Verb, a.Group, a.Version, a.IsResource, a.Subresource = verb, rbacv1.GroupName, "v1", true, ""
	ok, _ := e.Authorizer.Authorize(ctx, &a)
	return ok
}

// Confirm says what of the rules the user, in a.Namespace, does not hold.
func (e *Escalation) Confirm(a *Attributes, rules []rbacv1.PolicyRule) error {
	var held []rbacv1.PolicyRule
	for _, r := range e.Rules.RulesFor(a) {
		held = append(held, policyOf(&r))
	}
	covered, missing := validation.Covers(held, rules)
	if covered {
		return nil
	}
	lines := make([]string, 0, len(missing))
	for i := range missing {
		lines = append(lines, compact(&missing[i]))
	}
	slices.Sort(lines)
	return fmt.Errorf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s", a.User.Name, a.User.Groups, strings.Join(lines, "\n"))
}

// compact writes a rule in one line, without what it does not have.
func compact(r *rbacv1.PolicyRule) string {
	var parts []string
	for _, part := range [...]struct {
		name string
		list []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(part.list) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", part.name, part.list))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
