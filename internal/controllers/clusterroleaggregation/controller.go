// Package clusterroleaggregation is the loop that gathers, in a ClusterRole
// with an aggregationRule, the rules of all ClusterRoles that it selects.
//
// A role that gathers may itself be gathered: each look is at one role, and its
// change a reason to look at those that select it. A role never gathers itself.
// Selectors may select each other in a circle: rules are sorted by the name of
// the role they come from, and one that is there already is not added again, so
// the circle comes to rest.
//
// Failure: a look reads all it needs and makes at most one write, guarded by
// the revision that was looked at.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles.
package clusterroleaggregation

import (
	"context"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "clusterroleaggregation"

// Controller is the loop, wired. Its keys are ClusterRoles, by name.
type Controller struct {
	*loop.Loop
	client  client.Interface
	written controllers.Written
	roles   client.View
}

// byKind finds the roles that gather.
const (
	byKind  = "clusterroleaggregation.kind"
	gathers = "gathers"
)

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{client: opts.Client, roles: opts.Client.View(client.ClusterRoles, client.ViewOptions{})}
	c.roles.Index(byKind, func(obj client.Object) []string {
		if obj.(*rbacv1.ClusterRole).AggregationRule != nil {
			return []string{gathers}
		}
		return nil
	})
	controllers.IndexByLabel(c.roles)
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.roles, Changed: func(old, new client.Object) {
		if role, ok := new.(*rbacv1.ClusterRole); ok && role.AggregationRule != nil {
			c.Look(controllers.KeyOf(role))
		}
		for _, role := range client.Indexed[*rbacv1.ClusterRole](c.roles, byKind, gathers) {
			if selects(role, old) || selects(role, new) {
				c.Look(controllers.KeyOf(role))
			}
		}
	}})
}

// selects tells whether a role gathers another, which may be nil.
func selects(role *rbacv1.ClusterRole, other client.Object) bool {
	if other == nil || other.GetName() == role.Name {
		return false
	}
	return slices.ContainsFunc(role.AggregationRule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		return err == nil && selector.Matches(labels.Set(other.GetLabels()))
	})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	role := client.In[*rbacv1.ClusterRole](c.roles, "", key.Name)
	if role == nil || role.DeletionTimestamp != nil || role.AggregationRule == nil {
		return loop.Done(), nil
	}
	rules := gathered(c.selected(role))
	if equality.Semantic.DeepEqual(rules, role.Rules) {
		return loop.Done(), nil
	}
	changed := role.DeepCopy()
	changed.Rules = rules
	got, err := c.client.Update(ctx, client.ClusterRoles, changed)
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.roles, got, err, "change", "the rules that ClusterRole %s gathers", role.Name)
}

// selected are the roles that a role gathers, by name. Selectors that ask for
// labels are answered by the index, others by a look at all roles.
func (c *Controller) selected(role *rbacv1.ClusterRole) []*rbacv1.ClusterRole {
	found := map[string]*rbacv1.ClusterRole{}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		s := &role.AggregationRule.ClusterRoleSelectors[i]
		candidates := controllers.Selected[*rbacv1.ClusterRole](c.roles, "", s.MatchLabels)
		if len(s.MatchLabels) == 0 {
			candidates = client.Listed[*rbacv1.ClusterRole](c.roles, "")
		}
		for _, other := range candidates {
			if selects(role, other) {
				found[other.Name] = other
			}
		}
	}
	all := make([]*rbacv1.ClusterRole, 0, len(found))
	for _, other := range found {
		all = append(all, other)
	}
	slices.SortFunc(all, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// gathered are the rules of roles, each once.
func gathered(roles []*rbacv1.ClusterRole) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{}
	for _, role := range roles {
		for i := range role.Rules {
			if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, role.Rules[i]) }) {
				rules = append(rules, role.Rules[i])
			}
		}
	}
	return rules
}
