package authz

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// The roles that every cluster has as objects, with upstream's names, so that
// charts and people can bind to them.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings

const (
	readVerbs  = "get,list,watch"
	writeVerbs = "create,delete,deletecollection,patch,update"
	allVerbs   = readVerbs + "," + writeVerbs
)

// rule reads verbs, groups and resources, each with commas between; "core" is
// the group without name.
func rule(verbs, groups, resources string) rbacv1.PolicyRule {
	list := strings.Split(groups, ",")
	for i := range list {
		if list[i] == "core" {
			list[i] = ""
		}
	}
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: list, Resources: strings.Split(resources, ",")}
}

func named(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	r.ResourceNames = names
	return r
}

// What the three roles for people can do in a namespace, each besides what the
// one before can.
var (
	toView = []rbacv1.PolicyRule{
		rule(readVerbs, "core", "configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status"),
		rule(readVerbs, "core", "bindings,events,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,resourcequotas,resourcequotas/status"),
		rule(readVerbs, "core", "namespaces"),
		rule(readVerbs, "discovery.k8s.io", "endpointslices"),
		rule(readVerbs, "apps", "controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,statefulsets/status"),
		rule(readVerbs, "autoscaling", "horizontalpodautoscalers,horizontalpodautoscalers/status"),
		rule(readVerbs, "batch", "cronjobs,cronjobs/status,jobs,jobs/status"),
		rule(readVerbs, "policy", "poddisruptionbudgets,poddisruptionbudgets/status"),
		rule(readVerbs, "networking.k8s.io", "ingresses,ingresses/status,networkpolicies"),
		rule(readVerbs, "resource.k8s.io", "resourceclaims,resourceclaims/status,resourceclaimtemplates"),
		// With upstream this comes with its metrics server, which is built in here.
		rule(readVerbs, "metrics.k8s.io", "pods,nodes"),
	}
	toEdit = []rbacv1.PolicyRule{
		rule(readVerbs, "core", "pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy"),
		rule("impersonate", "core", "serviceaccounts"),
		rule(writeVerbs, "core", "pods,pods/attach,pods/exec,pods/portforward,pods/proxy"),
		rule("create", "core", "pods/eviction"),
		rule(writeVerbs, "core", "configmaps,events,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,secrets,serviceaccounts,services,services/proxy"),
		rule("create", "core", "serviceaccounts/token"),
		rule(writeVerbs, "apps", "daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,replicasets/scale,statefulsets,statefulsets/scale"),
		rule(writeVerbs, "autoscaling", "horizontalpodautoscalers"),
		rule(writeVerbs, "batch", "cronjobs,jobs"),
		rule(writeVerbs, "policy", "poddisruptionbudgets"),
		rule(writeVerbs, "networking.k8s.io", "ingresses,networkpolicies"),
		rule(allVerbs, "coordination.k8s.io", "leases"),
		rule(writeVerbs, "resource.k8s.io", "resourceclaims,resourceclaimtemplates"),
	}
	toAdmin = []rbacv1.PolicyRule{
		rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
		rule(allVerbs, rbacv1.GroupName, "rolebindings,roles"),
	}
)

// clusterRoles are those of administrators, of monitoring and of add-ons.
var clusterRoles = map[string][]rbacv1.PolicyRule{
	"cluster-admin": {
		rule("*", "*", "*"),
		{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
	},
	"system:monitoring": {
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*"}},
	},
	"system:auth-delegator": {
		rule("create", "authentication.k8s.io", "tokenreviews"),
		rule("create", "authorization.k8s.io", "subjectaccessreviews"),
	},
	"system:kube-aggregator":   {rule(readVerbs, "core", "endpoints,services")},
	"system:kube-dns":          {rule("list,watch", "core", "endpoints,services")},
	"system:kubelet-api-admin": {rule("get,list,watch,proxy", "core", "nodes"), rule("*", "core", "nodes/log,nodes/metrics,nodes/proxy,nodes/spec,nodes/stats")},
	"system:node-bootstrapper": {rule("create,get,list,watch", "certificates.k8s.io", "certificatesigningrequests")},
	"system:node-problem-detector": {
		rule("get", "core", "nodes"), rule("patch", "core", "nodes/status"), rule("create,patch,update", "core,events.k8s.io", "events"),
	},
	"system:persistent-volume-provisioner": {
		rule("get,list,watch,create,delete", "core", "persistentvolumes"), rule("get,list,watch,update", "core", "persistentvolumeclaims"),
		rule(readVerbs, "storage.k8s.io", "storageclasses"), rule("watch", "core", "events"), rule("create,patch,update", "core,events.k8s.io", "events"),
	},
	"system:volume-scheduler": {
		rule("get,list,patch,update,watch", "core", "persistentvolumes"), rule(readVerbs, "storage.k8s.io", "storageclasses"),
		rule("get,list,patch,update,watch", "core", "persistentvolumeclaims"),
	},
	"system:certificates.k8s.io:certificatesigningrequests:nodeclient":     {rule("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient")},
	"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": {rule("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient")},
	"system:certificates.k8s.io:kube-apiserver-client-approver":            {named(rule("approve", "certificates.k8s.io", "signers"), "kubernetes.io/kube-apiserver-client")},
	"system:certificates.k8s.io:kube-apiserver-client-kubelet-approver":    {named(rule("approve", "certificates.k8s.io", "signers"), "kubernetes.io/kube-apiserver-client-kubelet")},
	"system:certificates.k8s.io:kubelet-serving-approver":                  {named(rule("approve", "certificates.k8s.io", "signers"), "kubernetes.io/kubelet-serving")},
	"system:certificates.k8s.io:legacy-unknown-approver":                   {named(rule("approve", "certificates.k8s.io", "signers"), "kubernetes.io/legacy-unknown")},
}

const (
	autoUpdate    = "rbac.authorization.kubernetes.io/autoupdate"
	bootstrapping = "kubernetes.io/bootstrapping"
	aggregateTo   = "rbac.authorization.k8s.io/aggregate-to-"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Annotations: map[string]string{autoUpdate: "true"}, Labels: map[string]string{bootstrapping: "rbac-defaults"},
	}
}

// Defaults are the roles and bindings that every cluster has.
func Defaults() []Default {
	var out []Default
	cluster := func(name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
		role := &rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules}
		out = append(out, Default{ClusterRoles, role})
		return role
	}
	bind := func(role string, subjects ...rbacv1.Subject) {
		out = append(out, Default{ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta("", role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects,
		}})
	}
	for _, name := range sortedNames() {
		cluster(name, clusterRoles[name])
	}
	// What Builtin decides by, for people to read and to bind to.
	for i := range Roles {
		r := &Roles[i]
		if _, ok := clusterRoles[r.Name]; !ok {
			var rules []rbacv1.PolicyRule
			for j := range r.Rules {
				if r.Rules[j].Namespaces == nil {
					rules = append(rules, policyOf(&r.Rules[j]))
				}
			}
			cluster(r.Name, rules)
		}
		bind(r.Name, subjectsOf(r)...)
	}
	// The roles for people gather all roles that bear their label: those of
	// custom kinds as well.
	gathered := []rbacv1.PolicyRule{}
	for _, part := range [...]struct {
		name string
		own  []rbacv1.PolicyRule
	}{{"view", toView}, {"edit", toEdit}, {"admin", toAdmin}} {
		gathered = slices.Concat(gathered, part.own)
		source := cluster("system:aggregate-to-"+part.name, part.own)
		source.Labels[aggregateTo+part.name] = "true"
		role := cluster(part.name, gathered)
		role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregateTo + part.name: "true"}}}}
		switch part.name {
		case "view":
			role.Labels[aggregateTo+"edit"] = "true"
		case "edit":
			role.Labels[aggregateTo+"admin"] = "true"
		}
	}
	out = append(out,
		Default{RolesResource, &rbacv1.Role{ObjectMeta: meta("kube-system", "extension-apiserver-authentication-reader"), Rules: []rbacv1.PolicyRule{
			named(rule(readVerbs, "core", "configmaps"), "extension-apiserver-authentication"),
		}}},
		Default{RoleBindings, &rbacv1.RoleBinding{
			ObjectMeta: meta("kube-system", "system::extension-apiserver-authentication-reader"),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader"},
			Subjects: []rbacv1.Subject{
				{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "system:kube-controller-manager"},
				{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "system:kube-scheduler"},
			},
		}},
	)
	return append(out, controllerDefaults()...)
}

// Default is one of them.
type Default struct {
	Resource client.Resource
	Object   client.Object
}

func sortedNames() []string {
	var names []string
	for name := range clusterRoles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func subjectsOf(r *Role) (out []rbacv1.Subject) {
	for _, user := range r.Users {
		out = append(out, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user})
	}
	for _, group := range r.Groups {
		out = append(out, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group})
	}
	return out
}
