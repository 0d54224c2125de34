package admission

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// RBAC keeps users from giving away more than they have: see authz.Escalation.
// Upstream does the same in its storage of roles.
type RBAC struct {
	mutateNothing
	Escalation *authz.Escalation
	// RoleRules are the rules of the role that a binding gives.
	RoleRules func(ref *rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error)
}

// Name implements Plugin.
func (*RBAC) Name() string { return "RBAC" }

// Validate implements Plugin.
func (p *RBAC) Validate(ctx context.Context, r *Request) error {
	if r.Resource.Group != rbacv1.GroupName || r.Subresource != "" || r.Object == nil {
		return nil
	}
	switch obj := r.Object.(type) {
	case *rbacv1.Role:
		old, _ := r.Old.(*rbacv1.Role)
		if old != nil && apiequality.Semantic.DeepEqual(old.Rules, obj.Rules) {
			return nil
		}
		return p.role(ctx, r, obj.Rules)
	case *rbacv1.ClusterRole:
		old, _ := r.Old.(*rbacv1.ClusterRole)
		if old != nil && apiequality.Semantic.DeepEqual(old.Rules, obj.Rules) && apiequality.Semantic.DeepEqual(old.AggregationRule, obj.AggregationRule) {
			return nil
		}
		if obj.AggregationRule != nil {
			return p.aggregated(ctx, r)
		}
		return p.role(ctx, r, obj.Rules)
	case *rbacv1.RoleBinding:
		old, _ := r.Old.(*rbacv1.RoleBinding)
		if old != nil && old.RoleRef == obj.RoleRef && apiequality.Semantic.DeepEqual(old.Subjects, obj.Subjects) {
			return nil
		}
		return p.binding(ctx, r, &obj.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		old, _ := r.Old.(*rbacv1.ClusterRoleBinding)
		if old != nil && old.RoleRef == obj.RoleRef && apiequality.Semantic.DeepEqual(old.Subjects, obj.Subjects) {
			return nil
		}
		return p.binding(ctx, r, &obj.RoleRef)
	}
	return nil
}

func asks(r *Request, resource, name string) authz.Attributes {
	return authz.Attributes{User: r.User, Resource: resource, Namespace: r.Namespace, Name: name}
}

func (p *RBAC) role(ctx context.Context, r *Request, rules []rbacv1.PolicyRule) error {
	a := asks(r, r.Resource.Resource, r.Name)
	if p.Escalation.MayEscalate(ctx, a, "escalate") {
		return nil
	}
	if err := p.Escalation.Confirm(&a, rules); err != nil {
		return r.forbidden(err.Error())
	}
	return nil
}

// everything is what a role that gathers others may come to allow.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

func (p *RBAC) aggregated(ctx context.Context, r *Request) error {
	a := asks(r, r.Resource.Resource, r.Name)
	if p.Escalation.MayEscalate(ctx, a, "escalate") {
		return nil
	}
	if p.Escalation.Confirm(&a, everything) != nil {
		return r.forbidden(errAggregation.Error())
	}
	return nil
}

var errAggregation = errors.New("must have cluster-admin privileges to use an aggregationRule")

func (p *RBAC) binding(ctx context.Context, r *Request, ref *rbacv1.RoleRef) error {
	resource := "clusterroles"
	if ref.Kind == "Role" {
		resource = "roles"
	}
	a := asks(r, resource, ref.Name)
	if p.Escalation.MayEscalate(ctx, a, "bind") {
		return nil
	}
	rules, err := p.RoleRules(ref, r.Namespace)
	if err != nil {
		return err
	}
	if err := p.Escalation.Confirm(&a, rules); err != nil {
		return r.forbidden(err.Error())
	}
	return nil
}
