package authz

import (
	"context"
	"strings"
)

// Builtin decides by Roles and, for nodes, by what runs on them. It stands
// before RBAC: what the cluster itself needs is decided without a look at any
// object, and cannot be taken away by one.
//
// It reads no clock and no network; it may be used from many goroutines.
type Builtin struct {
	// Nodes decides for members of system:nodes; nil: they may do nothing but
	// what everybody may.
	Nodes *Nodes
}

// Authorize implements Authorizer. As upstream, a refusal for want of a rule
// gives no reason: the message of the 403 says it all.
func (b *Builtin) Authorize(ctx context.Context, a *Attributes) (bool, string) {
	for i := range Roles {
		role := &Roles[i]
		if !role.given(a) {
			continue
		}
		for j := range role.Rules {
			if role.Rules[j].Allows(a) {
				return true, ""
			}
		}
	}
	if b.Nodes != nil {
		if node, ok := nodeOf(a.User); ok {
			return b.Nodes.authorize(ctx, node, a)
		}
	}
	return false, ""
}

// RulesFor lists what a user may do, for SelfSubjectRulesReview: in one
// namespace, as far as that can be said without knowing objects' names.
func (b *Builtin) RulesFor(a *Attributes) []Rule {
	var out []Rule
	for i := range Roles {
		if Roles[i].given(a) {
			out = append(out, inNamespace(Roles[i].Rules, a.Namespace)...)
		}
	}
	if _, ok := nodeOf(a.User); ok && b.Nodes != nil {
		out = append(out, inNamespace(nodeRules, a.Namespace)...)
	}
	return out
}

func inNamespace(rules []Rule, namespace string) (out []Rule) {
	for _, r := range rules {
		if r.Namespaces == nil || oneOf(r.Namespaces, namespace) {
			out = append(out, r)
		}
	}
	return out
}

// Union asks one authorizer after the other; the first who allows wins. The
// reasons of all who did not are told together.
type Union []Authorizer

// Authorize implements Authorizer.
func (u Union) Authorize(ctx context.Context, a *Attributes) (bool, string) {
	var reasons []string
	for _, one := range u {
		ok, reason := one.Authorize(ctx, a)
		if ok {
			return true, reason
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
	}
	return false, strings.Join(reasons, "\n")
}
