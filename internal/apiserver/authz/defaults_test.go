package authz_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

// notServed are what rules may name besides the resources of this server: what
// only rules know, subresources that nothing is served at, and what others serve.
var notServed = []string{
	"certificates.k8s.io/signers", "certificates.k8s.io/certificatesigningrequests/nodeclient", "certificates.k8s.io/certificatesigningrequests/selfnodeclient",
	"core/endpoints/restricted", "discovery.k8s.io/endpointslices/restricted", "core/nodes/log", "core/nodes/metrics", "core/nodes/spec", "core/nodes/stats",
	"apps/deployments/rollback", "metrics.k8s.io/pods", "metrics.k8s.io/nodes",
}

// TestDefaultsNameWhatThereIs: a rule with a misspelt resource gives nothing,
// and nobody would notice.
func TestDefaultsNameWhatThereIs(t *testing.T) {
	served := map[string]bool{}
	for _, k := range all.Kinds() {
		for i := range k.Versions {
			group := k.Versions[i].GroupVersion.Group
			if group == "" {
				group = "core"
			}
			name := group + "/" + k.Resource.Resource
			served[name] = true
			for sub := range k.Subresources {
				served[name+"/"+sub] = true
			}
		}
	}
	rules := 0
	check := func(role string, list []rbacv1.PolicyRule) {
		for _, r := range list {
			for _, res := range r.Resources {
				found := res == "*" || strings.HasPrefix(res, "*/") || strings.HasSuffix(res, "/finalizers")
				for _, group := range r.APIGroups {
					if group == "" {
						group = "core"
					}
					found = found || served[group+"/"+res] || slices.Contains(notServed, group+"/"+res)
				}
				if !found {
					t.Errorf("%s names %s of %q", role, res, r.APIGroups)
				}
				rules++
			}
		}
	}
	names, bound := map[string]bool{}, map[string]bool{}
	for _, d := range authz.Defaults() {
		switch o := d.Object.(type) {
		case *rbacv1.ClusterRole:
			check(o.Name, o.Rules)
			names["ClusterRole "+o.Name] = true
		case *rbacv1.Role:
			check(o.Namespace+"/"+o.Name, o.Rules)
			names["Role "+o.Namespace+"/"+o.Name] = true
		case *rbacv1.ClusterRoleBinding:
			bound[o.RoleRef.Kind+" "+o.RoleRef.Name] = true
		case *rbacv1.RoleBinding:
			bound[o.RoleRef.Kind+" "+o.Namespace+"/"+o.RoleRef.Name] = true
		}
	}
	for role := range bound {
		if !names[role] {
			t.Errorf("a binding names %s, which is not there", role)
		}
	}
	for role := range names {
		if strings.Contains(role, "system:controller:") && !bound[role] {
			t.Errorf("%s is bound to nobody", role)
		}
	}
	if rules < 200 {
		t.Errorf("only %d rules were looked at", rules)
	}
}
