package authz

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The roles of single loops, under upstream's names: for those who run one of
// their own as the service account of that name in kube-system, or who bind to
// the rights of one. The loops of this cluster have theirs by
// system:kube-controller-manager.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#controller-roles

// controllerPrefix begins their names.
const controllerPrefix = "system:controller:"

var (
	tellEvents = rule("create,patch,update", "core,events.k8s.io", "events")
	statusOf   = func(groups, resources string) rbacv1.PolicyRule { return rule("update,patch", groups, resources) }
	// ownPods are the rights of a loop that makes pods and claims them by owner.
	ownPods = []rbacv1.PolicyRule{rule("list,watch,create,delete,patch", "core", "pods"), tellEvents}
)

// controllerRoles is by the name of the loop.
func controllerRoles() map[string][]rbacv1.PolicyRule {
	return map[string][]rbacv1.PolicyRule{
		"attachdetach-controller": {
			rule("list,watch", "core", "persistentvolumeclaims,persistentvolumes"), rule("get,list,watch", "core", "nodes"),
			rule("get,create,delete,list,watch", "storage.k8s.io", "volumeattachments"), rule(readVerbs, "storage.k8s.io", "csidrivers,csinodes"),
			statusOf("core", "nodes/status"), rule("list,watch", "core", "pods"), tellEvents,
		},
		"certificate-controller": {
			rule("get,list,watch,delete", "certificates.k8s.io", "certificatesigningrequests"),
			rule("update", "certificates.k8s.io", "certificatesigningrequests/approval,certificatesigningrequests/status"),
			named(rule("approve", "certificates.k8s.io", "signers"), "kubernetes.io/kube-apiserver-client-kubelet"),
			named(rule("sign", "certificates.k8s.io", "signers"), "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet",
				"kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"),
			rule("create", "authorization.k8s.io", "subjectaccessreviews"), tellEvents,
		},
		"clusterrole-aggregation-controller": {rule("escalate,get,list,patch,update,watch", rbacv1.GroupName, "clusterroles")},
		"cronjob-controller": {
			rule("get,list,watch,update", "batch", "cronjobs"), rule("create,delete,get,list,patch,update,watch", "batch", "jobs"),
			rule("update", "batch", "cronjobs/status,cronjobs/finalizers"), rule("list,delete", "core", "pods"), tellEvents,
		},
		"daemon-set-controller": append([]rbacv1.PolicyRule{
			rule(readVerbs, "apps", "daemonsets"), rule("update", "apps", "daemonsets/status,daemonsets/finalizers"),
			rule("list,watch", "core", "nodes"), rule("create,delete,get,list,patch,update,watch", "apps", "controllerrevisions"),
			rule("create", "core", "pods/binding"),
		}, ownPods...),
		"deployment-controller": {
			rule("get,list,watch,update", "apps", "deployments"), rule("update", "apps", "deployments/status,deployments/finalizers"),
			rule("create,delete,get,list,patch,update,watch", "apps", "replicasets"), rule("get,list,update,watch", "core", "pods"), tellEvents,
		},
		"device-taint-eviction-controller": {
			rule("get,list,watch,delete", "core", "pods"), statusOf("core", "pods/status"),
			rule(readVerbs, "resource.k8s.io", "deviceclasses,devicetaintrules,resourceclaims,resourceslices"), statusOf("resource.k8s.io", "devicetaintrules/status"), tellEvents,
		},
		"disruption-controller": {
			rule(readVerbs, "apps", "deployments,replicasets,statefulsets"), rule(readVerbs, "core", "replicationcontrollers"),
			rule(readVerbs, "policy", "poddisruptionbudgets"), rule("update", "policy", "poddisruptionbudgets/status"),
			rule("get", "*", "*/scale"), rule("list,watch", "core", "pods"), statusOf("core", "pods/status"), tellEvents,
		},
		"endpoint-controller": {
			rule(readVerbs, "core", "pods,services"), rule("create,delete,get,list,update,watch", "core", "endpoints"),
			rule("create", "core", "endpoints/restricted"), tellEvents,
		},
		"endpointslice-controller": {
			rule(readVerbs, "core", "nodes,pods,services"), rule("update", "core", "services/finalizers"),
			rule("create,delete,get,list,update,watch", "discovery.k8s.io", "endpointslices"), rule("create", "discovery.k8s.io", "endpointslices/restricted"), tellEvents,
		},
		"endpointslicemirroring-controller": {
			rule(readVerbs, "core", "endpoints,services"), rule("update", "core", "services/finalizers,endpoints/finalizers"),
			rule("create,delete,get,list,update,watch", "discovery.k8s.io", "endpointslices"), rule("create", "discovery.k8s.io", "endpointslices/restricted"), tellEvents,
		},
		"ephemeral-volume-controller": {
			rule(readVerbs, "core", "pods"), rule("update", "core", "pods/finalizers"), rule("create,get,list,watch", "core", "persistentvolumeclaims"), tellEvents,
		},
		"expand-controller": {
			rule("get,list,patch,update,watch", "core", "persistentvolumes"), statusOf("core", "persistentvolumeclaims/status"),
			rule(readVerbs, "core", "persistentvolumeclaims"), rule(readVerbs, "storage.k8s.io", "storageclasses"),
			rule("get", "core", "endpoints,services,secrets"), tellEvents,
		},
		"generic-garbage-collector": {rule("delete,get,list,patch,update,watch", "*", "*"), tellEvents},
		"horizontal-pod-autoscaler": {
			rule(readVerbs, "autoscaling", "horizontalpodautoscalers"), rule("update", "autoscaling", "horizontalpodautoscalers/status"),
			rule("get,update", "*", "*/scale"), rule("list", "core", "pods"), rule("list", "metrics.k8s.io", "pods"),
			rule("get,list", "custom.metrics.k8s.io,external.metrics.k8s.io", "*"), tellEvents,
		},
		"job-controller": append([]rbacv1.PolicyRule{
			rule("get,list,watch,update,patch", "batch", "jobs"), rule("update,patch", "batch", "jobs/status"), rule("update", "batch", "jobs/finalizers"),
		}, ownPods...),
		"kube-apiserver-serving-clustertrustbundle-publisher": {
			named(rule("attest", "certificates.k8s.io", "signers"), "kubernetes.io/kube-apiserver-serving"),
			rule("create,update,delete,list,watch", "certificates.k8s.io", "clustertrustbundles"), tellEvents,
		},
		"legacy-service-account-token-cleaner": {
			named(rule("get", "core", "configmaps"), "kube-apiserver-legacy-service-account-token-tracking"), rule("delete,patch", "core", "secrets"),
		},
		"namespace-controller": {
			rule("delete,get,list,watch", "core", "namespaces"), rule("update", "core", "namespaces/finalize,namespaces/status"),
			rule("delete,deletecollection,get,list", "*", "*"),
		},
		"node-controller": {
			rule("delete,get,list,patch,update,watch", "core", "nodes"), statusOf("core", "nodes/status"), rule("get,list,watch,delete", "core", "pods"),
			statusOf("core", "pods/status"), rule(readVerbs, "coordination.k8s.io", "leases"), tellEvents,
		},
		"persistent-volume-binder": {
			rule("create,delete,get,list,update,watch", "core", "persistentvolumes"), rule("update", "core", "persistentvolumes/status"),
			rule("get,list,update,watch", "core", "persistentvolumeclaims"), rule("update", "core", "persistentvolumeclaims/status"),
			rule("create,delete,get,list,watch", "core", "pods"), rule(readVerbs, "storage.k8s.io", "storageclasses"), rule("get,list", "core", "nodes"),
			rule("get,create,delete", "core", "services,endpoints"), rule("get", "core", "secrets"), tellEvents,
		},
		"pod-garbage-collector": {
			rule("delete,list,watch", "core", "pods"), rule(readVerbs, "core", "nodes"), statusOf("core", "pods/status"),
		},
		"podcertificaterequestcleaner-controller": {rule("get,list,watch,delete", "certificates.k8s.io", "podcertificaterequests")},
		"pv-protection-controller":                {rule("get,list,update,watch", "core", "persistentvolumes"), tellEvents},
		"pvc-protection-controller": {
			rule("get,list,update,watch", "core", "persistentvolumeclaims"), rule(readVerbs, "core", "pods"), tellEvents,
		},
		"replicaset-controller": append([]rbacv1.PolicyRule{
			rule("get,list,update,watch", "apps", "replicasets"), rule("update", "apps", "replicasets/status,replicasets/finalizers"),
		}, ownPods...),
		"replication-controller": append([]rbacv1.PolicyRule{
			rule("get,list,update,watch", "core", "replicationcontrollers"), rule("update", "core", "replicationcontrollers/status,replicationcontrollers/finalizers"),
		}, ownPods...),
		"resource-claim-controller": {
			rule(readVerbs, "core", "pods"), rule("update", "core", "pods/finalizers"), rule("patch", "core", "pods/status"),
			rule("get,list,watch,create,delete", "resource.k8s.io", "resourceclaims"), rule("update,patch", "resource.k8s.io", "resourceclaims/status"),
			rule(readVerbs, "resource.k8s.io", "resourceclaimtemplates"), tellEvents,
		},
		"resourcequota-controller": {rule("list,watch", "*", "*"), rule("update", "core", "resourcequotas/status"), tellEvents},
		"root-ca-cert-publisher":   {rule("create,get,list,update,watch", "core", "configmaps"), rule(readVerbs, "core", "namespaces"), tellEvents},
		"route-controller":         {rule("list,watch", "core", "nodes"), rule("patch", "core", "nodes/status"), tellEvents},
		"selinux-warning-controller": {
			rule(readVerbs, "core", "persistentvolumeclaims,persistentvolumes,pods"), rule(readVerbs, "storage.k8s.io", "csidrivers"), tellEvents,
		},
		"service-account-controller": {rule("create,get,list,watch", "core", "serviceaccounts"), rule(readVerbs, "core", "namespaces"), tellEvents},
		"service-cidrs-controller": {
			rule("get,list,patch,update,watch", "networking.k8s.io", "servicecidrs"), rule("patch,update", "networking.k8s.io", "servicecidrs/status,servicecidrs/finalizers"),
			rule(readVerbs, "networking.k8s.io", "ipaddresses"), tellEvents,
		},
		"service-controller": {
			rule(readVerbs, "core", "services"), rule("patch,update", "core", "services/status"), rule("list,watch", "core", "nodes"), tellEvents,
		},
		"statefulset-controller": {
			rule(readVerbs, "apps", "statefulsets"), rule("update", "apps", "statefulsets/status,statefulsets/finalizers"),
			rule("get,create,delete,list,patch,update,watch", "core", "pods"), rule("create,delete,get,list,patch,update,watch", "apps", "controllerrevisions"),
			rule("create,delete,get,list,patch,update,watch", "core", "persistentvolumeclaims"), tellEvents,
		},
		"storage-version-migrator-controller": {
			rule("list,patch", "*", "*"), rule(readVerbs, "storagemigration.k8s.io", "storageversionmigrations"),
			rule("update", "storagemigration.k8s.io", "storageversionmigrations/status"), tellEvents,
		},
		"ttl-after-finished-controller": {rule("get,list,watch,delete", "batch", "jobs"), tellEvents},
		"ttl-controller":                {rule("list,watch,patch,update", "core", "nodes"), tellEvents},
		"validatingadmissionpolicy-status-controller": {
			rule(readVerbs, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
			rule("get,patch,update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"), tellEvents,
		},
		"volumeattributesclass-protection-controller": {
			rule(readVerbs, "core", "persistentvolumeclaims,persistentvolumes"), rule("get,list,update,watch", "storage.k8s.io", "volumeattributesclasses"), tellEvents,
		},
	}
}

// controllerDefaults are those roles, and the bindings to their service
// accounts; and the roles of the loops that work in one namespace only.
func controllerDefaults() (out []Default) {
	roles := controllerRoles()
	var names []string
	for name := range roles {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		role := controllerPrefix + name
		out = append(out, Default{ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: meta("", role), Rules: roles[name]}})
		out = append(out, Default{ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta("", role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}},
		}})
	}
	account := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}
	}
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
	}
	leading := func(name string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{
			rule("watch", "core", "configmaps"), named(rule("get,update", "core", "configmaps"), name),
			rule("create", "coordination.k8s.io", "leases"), named(rule("get,update", "coordination.k8s.io", "leases"), name),
		}
	}
	for _, r := range []struct {
		namespace, name string
		rules           []rbacv1.PolicyRule
		subjects        []rbacv1.Subject
	}{
		{metav1.NamespaceSystem, controllerPrefix + "bootstrap-signer", []rbacv1.PolicyRule{rule(readVerbs, "core", "secrets")}, []rbacv1.Subject{account("bootstrap-signer")}},
		{metav1.NamespaceSystem, controllerPrefix + "cloud-provider", []rbacv1.PolicyRule{rule("create,get,list,watch", "core", "configmaps")}, []rbacv1.Subject{account("cloud-provider")}},
		{metav1.NamespaceSystem, controllerPrefix + "token-cleaner", []rbacv1.PolicyRule{rule("get,list,watch,delete", "core", "secrets"), tellEvents}, []rbacv1.Subject{account("token-cleaner")}},
		{metav1.NamespaceSystem, "system::leader-locking-kube-controller-manager", leading("kube-controller-manager"), []rbacv1.Subject{user("system:kube-controller-manager"), account("kube-controller-manager")}},
		{metav1.NamespaceSystem, "system::leader-locking-kube-scheduler", leading("kube-scheduler"), []rbacv1.Subject{user("system:kube-scheduler"), account("kube-scheduler")}},
		{metav1.NamespacePublic, controllerPrefix + "bootstrap-signer", []rbacv1.PolicyRule{
			rule(readVerbs, "core", "configmaps"), named(rule("update", "core", "configmaps"), "cluster-info"), tellEvents,
		}, []rbacv1.Subject{account("bootstrap-signer")}},
		// kubeadm makes this one: whoever joins reads cluster-info before anybody
		// knows him, and believes its signature.
		{metav1.NamespacePublic, "kubeadm:bootstrap-signer-clusterinfo", []rbacv1.PolicyRule{
			named(rule("get", "core", "configmaps"), "cluster-info"),
		}, []rbacv1.Subject{user("system:anonymous")}},
	} {
		out = append(out,
			Default{RolesResource, &rbacv1.Role{ObjectMeta: meta(r.namespace, r.name), Rules: r.rules}},
			Default{RoleBindings, &rbacv1.RoleBinding{
				ObjectMeta: meta(r.namespace, r.name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.name}, Subjects: r.subjects,
			}})
	}
	return out
}
