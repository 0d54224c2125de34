package authz

import (
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/pki"
)

var (
	read       = []string{"get", "list", "watch"}
	everyGroup = []string{"*"}
	core       = []string{""}
	getPath    = []string{"get", "head"}
	// events are what every loop tells what it does with.
	events = Rule{Verbs: []string{"create", "patch", "update"}, Groups: []string{"", "events.k8s.io"}, Resources: []string{"events"}}
)

// Roles are the rights that are built in, but for those of nodes, which depend
// on what runs on them (see Nodes).
var Roles = []Role{
	{
		Name:   "cluster-admin",
		Groups: []string{pki.MastersGroup},
		Rules: []Rule{
			{Verbs: []string{"*"}, Groups: everyGroup, Resources: []string{"*"}},
			{Verbs: []string{"*"}, Paths: []string{"*"}},
		},
	},
	{
		Name:   "system:public-info-viewer",
		Groups: []string{authn.Authenticated, authn.Unauthenticated},
		Rules: []Rule{
			{Verbs: getPath, Paths: []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}},
			// Joining asks for the join token instead of a user.
			{Verbs: []string{"post"}, Paths: []string{pki.JoinPath}},
		},
	},
	{
		Name:   "system:discovery",
		Groups: []string{authn.Authenticated},
		Rules: []Rule{{Verbs: getPath, Paths: []string{
			"/api", "/api/*", "/apis", "/apis/*", "/setpoint/v1/ranges", "/healthz", "/livez", "/readyz",
			"/openapi", "/openapi/*", "/version", "/version/",
		}}},
	},
	{
		Name:   "system:basic-user",
		Groups: []string{authn.Authenticated},
		Rules: []Rule{
			{Verbs: []string{"create"}, Groups: []string{"authorization.k8s.io"}, Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}},
			{Verbs: []string{"create"}, Groups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}},
		},
	},
	{
		Name:   "system:service-account-issuer-discovery",
		Groups: []string{authn.ServiceAccountsGroup},
		Rules:  []Rule{{Verbs: getPath, Paths: []string{"/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"}}},
	},
	controllers,
	scheduler,
	proxy,
}

// controllers is what the loops need; see internal/controllers.
var controllers = Role{
	Name:  "system:kube-controller-manager",
	Users: []string{pki.ControllerManagerUser},
	Rules: []Rule{
		// The garbage collector and the namespace loop work on every kind:
		// they follow owners, take finalizers off, and delete.
		{Verbs: []string{"get", "list", "watch", "delete", "deletecollection", "patch", "update"}, Groups: everyGroup, Resources: []string{"*"}},
		{Verbs: getPath, Paths: []string{"/metrics"}},
		// system:controller:validatingadmissionpolicy-status-controller reads
		// the types of what policies are for.
		{Verbs: getPath, Paths: []string{"/openapi/v3/*"}},
		// system:controller:horizontal-pod-autoscaler asks which version of the
		// metrics there is.
		{Verbs: getPath, Paths: []string{"/apis/custom.metrics.k8s.io"}},
		// What they make.
		{Verbs: []string{"create"}, Groups: core, Resources: []string{"pods", "endpoints", "serviceaccounts", "configmaps", "secrets", "persistentvolumeclaims", "persistentvolumes", "replicationcontrollers"}},
		{Verbs: []string{"create"}, Groups: []string{"apps"}, Resources: []string{"replicasets", "controllerrevisions"}},
		{Verbs: []string{"create"}, Groups: []string{"batch"}, Resources: []string{"jobs"}},
		{Verbs: []string{"create"}, Groups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		{Verbs: []string{"create"}, Groups: core, Resources: []string{"services"}}, // kube-dns
		{Verbs: []string{"create"}, Groups: []string{"networking.k8s.io"}, Resources: []string{"servicecidrs", "ipaddresses"}},
		{Verbs: []string{"create"}, Groups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}},
		{Verbs: []string{"create"}, Groups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims"}},
		{Verbs: []string{"create"}, Groups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments"}},
		{Verbs: []string{"create"}, Groups: core, Resources: []string{"pods/eviction", "serviceaccounts/token"}},
		// Endpoint loops write where endpoints are protected from users.
		{Verbs: []string{"create"}, Groups: core, Resources: []string{"endpoints/restricted"}},
		{Verbs: []string{"create"}, Groups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices/restricted"}},
		{Verbs: []string{"create"}, Groups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}},
		{Verbs: []string{"create"}, Groups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}},
		// system:controller:certificate-controller and
		// system:controller:kube-apiserver-serving-clustertrustbundle-publisher.
		{Verbs: []string{"approve"}, Groups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, Names: []string{"kubernetes.io/kube-apiserver-client-kubelet"}},
		{Verbs: []string{"sign"}, Groups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, Names: []string{
			"kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"}},
		{Verbs: []string{"attest"}, Groups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, Names: []string{"kubernetes.io/kube-apiserver-serving"}},
		{Verbs: []string{"create"}, Groups: []string{"certificates.k8s.io"}, Resources: []string{"clustertrustbundles"}},
		// system:controller:clusterrole-aggregation-controller: what it gathers
		// may be more than the loops may do.
		{Verbs: []string{"escalate"}, Groups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"}},
		events,
	},
}

var scheduler = Role{
	Name:  "system:kube-scheduler",
	Users: []string{pki.SchedulerUser},
	Rules: []Rule{
		{Verbs: read, Groups: core, Resources: []string{"pods", "nodes", "namespaces", "services", "replicationcontrollers", "persistentvolumeclaims", "persistentvolumes"}},
		{Verbs: read, Groups: []string{"apps"}, Resources: []string{"replicasets", "statefulsets"}},
		{Verbs: read, Groups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}},
		{Verbs: read, Groups: []string{"scheduling.k8s.io"}, Resources: []string{"priorityclasses"}},
		{Verbs: read, Groups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"}},
		{Verbs: read, Groups: []string{"resource.k8s.io"}, Resources: []string{"*"}},
		{Verbs: []string{"create"}, Groups: core, Resources: []string{"bindings", "pods/binding"}},
		{Verbs: []string{"patch", "update"}, Groups: core, Resources: []string{"pods/status"}},
		{Verbs: []string{"delete"}, Groups: core, Resources: []string{"pods"}}, // preemption
		// What a pod is to have on its node is written before the pod is bound.
		{Verbs: []string{"patch", "update"}, Groups: core, Resources: []string{"persistentvolumes", "persistentvolumeclaims"}},
		{Verbs: []string{"patch", "update"}, Groups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceclaims/status"}},
		{Verbs: []string{"create", "get", "list", "watch", "update"}, Groups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Namespaces: []string{"kube-system"}},
		{Verbs: []string{"create"}, Groups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}},
		{Verbs: []string{"create"}, Groups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}},
		events,
	},
}

// proxy is what serves cluster IPs and names.
var proxy = Role{
	Name:  "system:node-proxier",
	Users: []string{pki.ProxyUser},
	Rules: []Rule{
		{Verbs: read, Groups: core, Resources: []string{"services", "endpoints", "nodes", "namespaces"}},
		{Verbs: read, Groups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		{Verbs: read, Groups: []string{"networking.k8s.io"}, Resources: []string{"servicecidrs"}},
		events,
	},
}
