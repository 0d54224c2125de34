package authz_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/client"
)

// cluster is an API server that decides by its own objects.
type cluster struct {
	*apitest.Harness
	rbac  *authz.RBAC
	admin client.Interface
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{rbac: &authz.RBAC{}}
	builtin := &authz.Builtin{}
	union := authz.Union{builtin, c.rbac}
	c.Harness = apitest.New(t, apitest.Options{
		Authorizer: union, Namespaces: []string{"default", "kube-system", "kube-public"},
		Admission: []admission.Plugin{&admission.RBAC{
			Escalation: &authz.Escalation{Authorizer: union, Rules: authz.All{builtin, c.rbac}}, RoleRules: c.rbac.RoleRules,
		}},
	})
	c.admin = c.as("root", "system:masters")
	c.rbac.View = func(res client.Resource) client.View { return c.admin.View(res, client.ViewOptions{}) }
	c.rbac.RulesFor(&authz.Attributes{User: &authn.User{}}) // opens the views
	return c
}

func (c *cluster) as(user string, groups ...string) client.Interface {
	return c.Server.Client(client.Identity{User: user, Groups: groups})
}

func (c *cluster) create(t *testing.T, res client.Resource, obj client.Object) {
	t.Helper()
	got, err := c.admin.Create(context.Background(), res, obj)
	if err != nil {
		t.Fatal(err)
	}
	c.seen(t, res, got)
}

// seen waits until the index has a write.
func (c *cluster) seen(t *testing.T, res client.Resource, obj client.Object) {
	t.Helper()
	view := c.rbac.View(res)
	if err := view.WaitFor(context.Background(), obj.GetResourceVersion()); err != nil {
		t.Fatal(err)
	}
}

func role(ns, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Rules: rules}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: strings.Split(groups, ","), Resources: strings.Split(resources, ","), ResourceNames: names}
}

func ref(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func subject(kind, ns, name string) rbacv1.Subject {
	s := rbacv1.Subject{Kind: kind, Namespace: ns, Name: name}
	if kind != rbacv1.ServiceAccountKind {
		s.APIGroup = rbacv1.GroupName
	}
	return s
}

func bindIn(ns, name string, r rbacv1.RoleRef, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, RoleRef: r, Subjects: subjects}
}

func bindAll(name string, r rbacv1.RoleRef, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: r, Subjects: subjects}
}

func TestRBAC(t *testing.T) {
	c := newCluster(t)
	c.create(t, authz.RolesResource, role("default", "reader", rule("get,list", "", "pods"), rule("get", "", "secrets", "one")))
	c.create(t, authz.ClusterRoles, clusterRole("scaler", rule("*", "apps", "*/scale"), rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/logs/*"}}))
	c.create(t, authz.RoleBindings, bindIn("default", "a", ref("Role", "reader"), subject("User", "", "jane"), subject("ServiceAccount", "default", "app")))
	c.create(t, authz.RoleBindings, bindIn("default", "b", ref("ClusterRole", "scaler"), subject("Group", "", "dev")))
	c.create(t, authz.ClusterRoleBindings, bindAll("c", ref("ClusterRole", "scaler"), subject("Group", "", "ops")))
	c.create(t, authz.ClusterRoleBindings, bindAll("d", ref("ClusterRole", "none"), subject("User", "", "lost")))

	for _, tc := range []struct {
		user, groups, verb, group, resource, sub, ns, name, path string
		want                                                     bool
	}{
		{user: "jane", verb: "get", resource: "pods", ns: "default", want: true},
		{user: "jane", verb: "get", resource: "pods", ns: "kube-system"},
		{user: "jane", verb: "list", resource: "pods"},
		{user: "jane", verb: "get", resource: "pods", sub: "log", ns: "default"},
		{user: "jane", verb: "delete", resource: "pods", ns: "default"},
		{user: "jane", verb: "get", resource: "secrets", ns: "default", name: "one", want: true},
		{user: "jane", verb: "get", resource: "secrets", ns: "default", name: "two"},
		{user: "jane", verb: "list", resource: "secrets", ns: "default"},
		{user: authn.ServiceAccountPrefix + "default:app", verb: "get", resource: "pods", ns: "default", want: true},
		{user: authn.ServiceAccountPrefix + "kube-system:app", verb: "get", resource: "pods", ns: "default"},
		{user: "bob", groups: "dev", verb: "update", group: "apps", resource: "deployments", sub: "scale", ns: "default", want: true},
		{user: "bob", groups: "dev", verb: "update", group: "apps", resource: "deployments", sub: "scale", ns: "kube-system"},
		{user: "bob", groups: "ops", verb: "update", group: "apps", resource: "deployments", sub: "scale", ns: "kube-system", want: true},
		{user: "bob", groups: "ops", verb: "get", path: "/logs/x", want: true},
		{user: "bob", groups: "dev", verb: "get", path: "/logs/x"}, // a binding of a namespace gives no paths
		{user: "lost", verb: "get", resource: "pods", ns: "default"},
	} {
		a := &authz.Attributes{
			User: &authn.User{Name: tc.user, Groups: strings.Fields(tc.groups)}, Verb: tc.verb, Group: tc.group, Resource: tc.resource,
			Subresource: tc.sub, Namespace: tc.ns, Name: tc.name, Path: tc.path, IsResource: tc.path == "",
		}
		if got, reason := c.rbac.Authorize(context.Background(), a); got != tc.want {
			t.Errorf("%+v: %v %q", tc, got, reason)
		}
	}
}

// TestRBACSeesWrites: a decision follows what is written.
func TestRBACSeesWrites(t *testing.T) {
	c := newCluster(t)
	ctx := context.Background()
	jane := c.as("jane")
	list := func() error {
		_, _, err := jane.List(ctx, client.ConfigMaps, "default", metav1.ListOptions{})
		return err
	}
	if err := list(); !apierrors.IsForbidden(err) {
		t.Fatalf("without a binding: %v", err)
	}
	c.create(t, authz.RoleBindings, bindIn("default", "a", ref("ClusterRole", "late"), subject("User", "", "jane")))
	if err := list(); err == nil || !strings.Contains(err.Error(), `RBAC: clusterroles.rbac.authorization.k8s.io "late" not found`) {
		t.Fatalf("without the role: %v", err)
	}
	c.create(t, authz.ClusterRoles, clusterRole("late", rule("list", "", "configmaps")))
	if err := list(); err != nil {
		t.Fatal(err)
	}
	now, err := c.admin.Get(ctx, authz.ClusterRoles, "", "late")
	if err != nil {
		t.Fatal(err)
	}
	changed := now.DeepCopyObject().(*rbacv1.ClusterRole)
	changed.Rules = nil
	if _, err := c.admin.Update(ctx, authz.ClusterRoles, changed); err != nil {
		t.Fatal(err)
	}
	if err := list(); !apierrors.IsForbidden(err) {
		t.Fatalf("after the role lost its rule: %v", err)
	}
}

func TestReasonAndRules(t *testing.T) {
	c := newCluster(t)
	c.create(t, authz.ClusterRoles, clusterRole("r", rule("get", "", "pods")))
	c.create(t, authz.ClusterRoleBindings, bindAll("b", ref("ClusterRole", "r"), subject("Group", "", "dev")))
	a := &authz.Attributes{User: &authn.User{Name: "jane", Groups: []string{"dev"}}, Verb: "get", Resource: "pods", Namespace: "default", IsResource: true}
	if _, reason := c.rbac.Authorize(context.Background(), a); reason != `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "dev"` {
		t.Errorf("reason %q", reason)
	}
	if rules := c.rbac.RulesFor(a); len(rules) != 1 || !slices.Equal(rules[0].Resources, []string{"pods"}) {
		t.Errorf("rules %+v", rules)
	}
}

func TestEscalation(t *testing.T) {
	c := newCluster(t)
	ctx := context.Background()
	c.create(t, authz.ClusterRoles, clusterRole("writer", rule("create,update", rbacv1.GroupName, "roles,rolebindings,clusterroles,clusterrolebindings"), rule("get,list", "", "pods")))
	c.create(t, authz.ClusterRoles, clusterRole("secrets", rule("get", "", "secrets")))
	c.create(t, authz.ClusterRoleBindings, bindAll("w", ref("ClusterRole", "writer"), subject("User", "", "jane")))
	jane := c.as("jane")

	try := func(res client.Resource, obj client.Object) error {
		_, err := jane.Create(ctx, res, obj)
		return err
	}
	if err := try(authz.RolesResource, role("default", "within", rule("get", "", "pods"))); err != nil {
		t.Errorf("what she holds: %v", err)
	}
	err := try(authz.RolesResource, role("default", "beyond", rule("get,delete", "", "pods")))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}") {
		t.Errorf("what she does not hold: %v", err)
	}
	if err := try(authz.RoleBindings, bindIn("default", "x", ref("ClusterRole", "secrets"), subject("User", "", "jane"))); !apierrors.IsForbidden(err) {
		t.Errorf("a binding beyond: %v", err)
	}
	if err := try(authz.RoleBindings, bindIn("default", "x", ref("ClusterRole", "nowhere"), subject("User", "", "jane"))); !apierrors.IsNotFound(err) {
		t.Errorf("a binding to nothing: %v", err)
	}
	gathers := clusterRole("gathers")
	gathers.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}
	if err := try(authz.ClusterRoles, gathers); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "must have cluster-admin privileges") {
		t.Errorf("a role that gathers: %v", err)
	}

	c.create(t, authz.ClusterRoles, clusterRole("binder", rule("bind", rbacv1.GroupName, "clusterroles", "secrets"), rule("escalate", rbacv1.GroupName, "roles")))
	c.create(t, authz.ClusterRoleBindings, bindAll("b", ref("ClusterRole", "binder"), subject("User", "", "jane")))
	if err := try(authz.RoleBindings, bindIn("default", "x", ref("ClusterRole", "secrets"), subject("User", "", "jane"))); err != nil {
		t.Errorf("with the verb bind: %v", err)
	}
	if err := try(authz.RolesResource, role("default", "beyond", rule("get,delete", "", "pods"))); err != nil {
		t.Errorf("with the verb escalate: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	c := newCluster(t)
	ctx := context.Background()
	if err := authz.EnsureDefaults(ctx, c.admin); err != nil {
		t.Fatal(err)
	}
	if err := authz.EnsureDefaults(ctx, readOnly{c.admin, t}); err != nil {
		t.Fatal(err)
	}
	c.create(t, authz.RoleBindings, bindIn("default", "v", ref("ClusterRole", "view"), subject("User", "", "viewer")))
	c.create(t, authz.RoleBindings, bindIn("default", "e", ref("ClusterRole", "edit"), subject("User", "", "editor")))
	c.create(t, authz.RoleBindings, bindIn("default", "a", ref("ClusterRole", "admin"), subject("User", "", "owner")))
	for _, tc := range []struct {
		user, verb, group, resource string
		want                        bool
	}{
		{"viewer", "list", "apps", "deployments", true}, {"viewer", "get", "", "secrets", false}, {"viewer", "create", "", "pods", false},
		{"editor", "get", "", "secrets", true}, {"editor", "create", "batch", "jobs", true}, {"editor", "create", rbacv1.GroupName, "roles", false},
		{"system:serviceaccount:kube-system:cronjob-controller", "create", "batch", "jobs", true}, {"system:serviceaccount:kube-system:cronjob-controller", "create", "", "pods", false},
		{"system:serviceaccount:kube-system:namespace-controller", "deletecollection", "example.com", "widgets", true},
		{"system:serviceaccount:default:namespace-controller", "deletecollection", "example.com", "widgets", false},
		{"owner", "create", rbacv1.GroupName, "roles", true}, {"owner", "list", "", "pods", true}, {"owner", "delete", "", "namespaces", false},
	} {
		a := &authz.Attributes{User: &authn.User{Name: tc.user}, Verb: tc.verb, Group: tc.group, Resource: tc.resource, Namespace: "default", IsResource: true}
		if got, _ := c.rbac.Authorize(ctx, a); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}

	for _, tc := range []struct {
		user, verb, namespace, resource, name string
		want                                  bool
	}{
		{"system:anonymous", "get", "kube-public", "configmaps", "cluster-info", true}, {"system:anonymous", "get", "kube-public", "configmaps", "other", false},
		{"system:serviceaccount:kube-system:bootstrap-signer", "update", "kube-public", "configmaps", "cluster-info", true},
		{"system:serviceaccount:kube-system:token-cleaner", "delete", "kube-system", "secrets", "x", true},
		{"system:serviceaccount:kube-system:token-cleaner", "delete", "default", "secrets", "x", false},
	} {
		a := &authz.Attributes{User: &authn.User{Name: tc.user}, Verb: tc.verb, Resource: tc.resource, Namespace: tc.namespace, Name: tc.name, IsResource: true}
		if got, _ := c.rbac.Authorize(ctx, a); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}

	// What somebody took out comes back, unless they said not to.
	took := func(name, update string) {
		obj, err := c.admin.Get(ctx, authz.ClusterRoles, "", name)
		if err != nil {
			t.Fatal(err)
		}
		r := obj.DeepCopyObject().(*rbacv1.ClusterRole)
		r.Rules, r.Annotations["rbac.authorization.kubernetes.io/autoupdate"] = nil, update
		if _, err := c.admin.Update(ctx, authz.ClusterRoles, r); err != nil {
			t.Fatal(err)
		}
	}
	took("system:monitoring", "true")
	took("system:kube-dns", "false")
	if err := authz.EnsureDefaults(ctx, c.admin); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"system:monitoring": true, "system:kube-dns": false} {
		obj, err := c.admin.Get(ctx, authz.ClusterRoles, "", name)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(obj.(*rbacv1.ClusterRole).Rules) > 0; got != want {
			t.Errorf("%s has rules: %v, want %v", name, got, want)
		}
	}
}

// readOnly is a client that must not write.
type readOnly struct {
	client.Interface
	t *testing.T
}

func (r readOnly) Create(_ context.Context, _ client.Resource, obj client.Object, _ ...string) (client.Object, error) {
	r.t.Errorf("creates %s", obj.GetName())
	return obj, nil
}

func (r readOnly) Update(_ context.Context, _ client.Resource, obj client.Object, _ ...string) (client.Object, error) {
	r.t.Errorf("updates %s", obj.GetName())
	return obj, nil
}
