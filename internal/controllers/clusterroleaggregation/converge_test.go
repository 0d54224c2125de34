package clusterroleaggregation_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/clusterroleaggregation"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
)

func rules(resources ...string) (out []rbacv1.PolicyRule) {
	for _, r := range resources {
		out = append(out, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{r}})
	}
	return out
}

// role is one with labels ("to-view": "true" for each).
func role(name string, r []rbacv1.PolicyRule, labels ...string) *rbacv1.ClusterRole {
	set := map[string]string{}
	for _, l := range labels {
		set[l] = "true"
	}
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}, Rules: r}
}

// gathering is role with an aggregationRule for each label.
func gathering(r *rbacv1.ClusterRole, labels ...string) *rbacv1.ClusterRole {
	r.AggregationRule = &rbacv1.AggregationRule{}
	for _, l := range labels {
		r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: map[string]string{l: "true"}})
	}
	return r
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{clusterroleaggregation.New(o)}
		},
		Start: func(w *controllertest.World) {
			// As upstream's: edit gathers view, and what is for edit alone.
			w.Create(client.ClusterRoles, gathering(role("view", rules("stale"), "to-edit"), "to-view"))
			w.Create(client.ClusterRoles, gathering(role("edit", nil), "to-edit"))
			w.Create(client.ClusterRoles, role("b-view", rules("pods", "services"), "to-view"))
			w.Create(client.ClusterRoles, role("a-view", rules("services", "nodes"), "to-view"))
			w.Create(client.ClusterRoles, role("c-edit", rules("secrets"), "to-edit"))
			for i := range w.Rand.IntN(3) {
				w.Create(client.ClusterRoles, role(fmt.Sprint("crd-", i), rules(fmt.Sprint("things", i)), "to-view"))
			}
			// Two that gather each other, and themselves.
			w.Create(client.ClusterRoles, gathering(role("round", nil, "circle"), "circle"))
			w.Create(client.ClusterRoles, gathering(role("about", nil, "circle"), "circle"))
			w.Create(client.ClusterRoles, role("into", rules("y"), "circle"))
			// One that selects by expression.
			any := gathering(role("any", nil))
			any.AggregationRule.ClusterRoleSelectors = []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "to-view", Operator: metav1.LabelSelectorOpExists}}}}
			w.Create(client.ClusterRoles, any)
			w.Create(client.ClusterRoles, role("plain", rules("kept"), "other"))
		},
		Meanwhile: func(w *controllertest.World) {
			w.Create(client.ClusterRoles, role("late", rules("late"), "to-view"))
			w.Edit(client.ClusterRoles, "", "a-view", func(obj client.Object) { obj.(*rbacv1.ClusterRole).Rules = rules("services", "leases") })
			w.Delete(client.ClusterRoles, "", "c-edit", metav1.DeleteOptions{})
			w.Edit(client.ClusterRoles, "", "edit", func(obj client.Object) { obj.(*rbacv1.ClusterRole).Rules = rules("by hand") })
		},
		End: func(w *controllertest.World) string { return w.Lines(client.ClusterRoles, line) },
		Check: func(w *controllertest.World) error {
			view := line(w.Get(client.ClusterRoles, "", "view"))
			for name, want := range map[string]string{
				"edit": strings.Replace(view, "view", "edit", 1), "any": strings.Replace(view, "view", "any", 1),
				"plain": "plain: kept", "late": "late: late",
			} {
				if got := line(w.Get(client.ClusterRoles, "", name)); got != want {
					return fmt.Errorf("%q, want %q", got, want)
				}
			}
			if !strings.HasPrefix(view, "view: services leases pods ") || !strings.HasSuffix(view, " late") || strings.Contains(view, "stale") {
				return fmt.Errorf("view is %q", view)
			}
			return nil
		},
	})
}

func line(obj client.Object) string {
	text := obj.GetName() + ":"
	for _, r := range obj.(*rbacv1.ClusterRole).Rules {
		text += " " + r.Resources[0]
	}
	return text
}
