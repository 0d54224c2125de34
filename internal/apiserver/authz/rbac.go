package authz

import (
	"context"
	"fmt"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/client"
)

// RBAC decides by the roles and bindings that are objects of the API. It looks
// up the bindings of a user and of each of the user's groups in an index, so a
// decision costs what binds the user, not what there is.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/
//
// Roles are read from the store itself; a new binding counts once the index
// has it, within a millisecond. It may be used from many goroutines. Builtin
// stands before it: who is allowed there, every part of the cluster itself,
// never comes here.
type RBAC struct {
	// View opens a picture of a resource in the API server's own memory. It is
	// called at the first decision, once for each of the four kinds.
	View func(client.Resource) client.View

	once                                           sync.Once
	roles, bindings, clusterRoles, clusterBindings client.View
}

// Resources of RBAC.
var (
	RolesResource       = rbacv1.SchemeGroupVersion.WithResource("roles")
	RoleBindings        = rbacv1.SchemeGroupVersion.WithResource("rolebindings")
	ClusterRoles        = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	ClusterRoleBindings = rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")
)

// bySubject is the index of bindings by whom they bind.
const bySubject = "subject"

func (r *RBAC) open() {
	r.roles, r.bindings = r.View(RolesResource), r.View(RoleBindings)
	r.clusterRoles, r.clusterBindings = r.View(ClusterRoles), r.View(ClusterRoleBindings)
	r.bindings.Index(bySubject, func(o client.Object) []string {
		b := o.(*rbacv1.RoleBinding)
		return subjectKeys(b.Subjects, b.Namespace)
	})
	r.clusterBindings.Index(bySubject, func(o client.Object) []string {
		return subjectKeys(o.(*rbacv1.ClusterRoleBinding).Subjects, "")
	})
}

// subjectKeys are under what a binding is found: "u:NAME" or "g:NAME" for one
// of the whole cluster, with "NAMESPACE/" before it for one of a namespace.
func subjectKeys(subjects []rbacv1.Subject, namespace string) []string {
	var out []string
	for i := range subjects {
		switch s := &subjects[i]; s.Kind {
		case rbacv1.UserKind:
			out = append(out, subjectKey(namespace, "u:", s.Name))
		case rbacv1.GroupKind:
			out = append(out, subjectKey(namespace, "g:", s.Name))
		case rbacv1.ServiceAccountKind:
			ns := s.Namespace
			if ns == "" {
				ns = namespace
			}
			out = append(out, subjectKey(namespace, "u:", authn.ServiceAccountPrefix+ns+":"+s.Name))
		}
	}
	return out
}

func subjectKey(namespace, sort, name string) string {
	if namespace == "" {
		return sort + name
	}
	return namespace + "/" + sort + name
}

// grant is a role that somebody has, and by what.
type grant struct {
	binding   client.Object
	ref       *rbacv1.RoleRef
	namespace string // "": everywhere
	subject   string // `User "jane"`
}

// grants calls f with every grant of a user that counts in namespace, those of
// the whole cluster first, until f returns false.
func (r *RBAC) grants(ctx context.Context, u *authn.User, namespace string, f func(*grant) bool) {
	r.once.Do(r.open)
	if r.clusterBindings.WaitSynced(ctx) != nil || r.bindings.WaitSynced(ctx) != nil {
		return // the request or the server has ended
	}
	each := func(ns string) bool {
		if !r.bound(ns, "u:", u.Name, f) {
			return false
		}
		for _, group := range u.Groups {
			if !r.bound(ns, "g:", group, f) {
				return false
			}
		}
		return true
	}
	if each("") && namespace != "" {
		each(namespace)
	}
}

func (r *RBAC) bound(namespace, sort, name string, f func(*grant) bool) bool {
	view := r.clusterBindings
	if namespace != "" {
		view = r.bindings
	}
	for _, o := range view.ByIndex(bySubject, subjectKey(namespace, sort, name)) {
		g := &grant{binding: o, namespace: namespace, subject: fmt.Sprintf("%s %q", map[string]string{"u:": "User", "g:": "Group"}[sort], name)}
		switch b := o.(type) {
		case *rbacv1.ClusterRoleBinding:
			g.ref = &b.RoleRef
		case *rbacv1.RoleBinding:
			g.ref = &b.RoleRef
		}
		if !f(g) {
			return false
		}
	}
	return true
}

// RoleRules are the rules of a role; an error says that there is none.
func (r *RBAC) RoleRules(ref *rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	r.once.Do(r.open)
	if ref.Kind == "Role" {
		if role, ok := r.roles.Get(namespace, ref.Name).(*rbacv1.Role); ok && role != nil {
			return role.Rules, nil
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, ref.Name)
	}
	if role, ok := r.clusterRoles.Get("", ref.Name).(*rbacv1.ClusterRole); ok && role != nil {
		return role.Rules, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}, ref.Name)
}

// Authorize implements Authorizer. A refusal names the roles that a binding
// gives and that are not there.
func (r *RBAC) Authorize(ctx context.Context, a *Attributes) (allowed bool, reason string) {
	var missing []string
	r.grants(ctx, a.User, a.Namespace, func(g *grant) bool {
		rules, err := r.RoleRules(g.ref, g.namespace)
		if err != nil {
			missing = append(missing, err.Error())
			return true
		}
		for i := range rules {
			if policyAllows(&rules[i], a) {
				allowed, reason = true, g.String()
				return false
			}
		}
		return true
	})
	if !allowed && len(missing) > 0 {
		reason = "RBAC: " + strings.Join(missing, ", ")
		if len(missing) > 1 {
			reason = "RBAC: [" + strings.Join(missing, ", ") + "]"
		}
	}
	return allowed, reason
}

func (g *grant) String() string {
	if g.namespace != "" {
		return fmt.Sprintf("RBAC: allowed by RoleBinding %q of %s %q to %s", g.binding.GetName()+"/"+g.namespace, g.ref.Kind, g.ref.Name, g.subject)
	}
	return fmt.Sprintf("RBAC: allowed by ClusterRoleBinding %q of %s %q to %s", g.binding.GetName(), g.ref.Kind, g.ref.Name, g.subject)
}

// policyAllows is Rule.Allows for a rule as the API has it.
func policyAllows(p *rbacv1.PolicyRule, a *Attributes) bool {
	r := ruleOf(p)
	return r.Allows(a)
}

func ruleOf(p *rbacv1.PolicyRule) Rule {
	r := Rule{Verbs: p.Verbs, Groups: p.APIGroups, Resources: p.Resources, Paths: p.NonResourceURLs}
	if len(p.ResourceNames) > 0 {
		r.Names = p.ResourceNames
	}
	return r
}

// policyOf is the reverse of ruleOf. A rule for certain namespaces is none of
// the API's: it is left to those who ask for one of them.
func policyOf(r *Rule) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.Groups, Resources: r.Resources, ResourceNames: r.Names, NonResourceURLs: r.Paths}
}

// RulesFor lists what a user may do in a namespace.
func (r *RBAC) RulesFor(a *Attributes) (out []Rule) {
	r.grants(context.Background(), a.User, a.Namespace, func(g *grant) bool {
		rules, _ := r.RoleRules(g.ref, g.namespace)
		for i := range rules {
			out = append(out, ruleOf(&rules[i]))
		}
		return true
	})
	return out
}
