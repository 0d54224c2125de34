package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// Nodes decides what a node's kubelet may do: what all kubelets need (see
// nodeRules), and with secrets, config maps, claims and service accounts only
// what the pods bound to the node name. That a kubelet changes only its own
// node and its own pods is for the NodeRestriction admission plugin, which
// sees the objects.
// https://kubernetes.io/docs/reference/access-authn-authz/node/
type Nodes struct {
	// PodsOn lists the pods bound to a node. It is called for nearly every
	// request of a kubelet, so its cost must be that of what matches.
	PodsOn func(node string) []*corev1.Pod
	// VolumeOf is the volume that a claim is bound to, nil when there is none.
	// What its driver needs in secrets its node may read. nil: no secret is read
	// for the sake of a volume.
	VolumeOf func(namespace, claim string) *corev1.PersistentVolume
	// AttachedTo is the node that a VolumeAttachment is for; "": there is no such
	// attachment. nil: no node reads any.
	AttachedTo func(attachment string) (node string)
}

// nodeRules are what every kubelet may do.
var nodeRules = []Rule{
	{Verbs: read, Groups: core, Resources: []string{"services", "nodes", "pods"}},
	// A deviation from upstream: the service proxy is part of a node here, not
	// a workload with an identity of its own.
	{Verbs: read, Groups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
	// So are the DNS server, which answers for pods of a namespace that exists,
	// and what enforces network policies.
	{Verbs: read, Groups: core, Resources: []string{"namespaces"}},
	{Verbs: read, Groups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies", "servicecidrs"}},
	// Another: a node makes and removes the folders of the volumes on it, and
	// says so on the volume (NodeRestriction holds it to that).
	{Verbs: []string{"get", "list", "watch", "patch"}, Groups: core, Resources: []string{"persistentvolumes"}},
	{Verbs: []string{"create", "update", "patch"}, Groups: core, Resources: []string{"nodes"}},
	{Verbs: []string{"update", "patch"}, Groups: core, Resources: []string{"nodes/status"}},
	{Verbs: []string{"create", "delete"}, Groups: core, Resources: []string{"pods"}}, // mirror pods; ended pods
	{Verbs: []string{"update", "patch"}, Groups: core, Resources: []string{"pods/status"}},
	{Verbs: []string{"create"}, Groups: core, Resources: []string{"pods/eviction"}},
	{Verbs: []string{"get", "create", "update", "patch", "delete"}, Groups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Namespaces: []string{corev1.NamespaceNodeLease}},
	{Verbs: read, Groups: []string{"node.k8s.io"}, Resources: []string{"runtimeclasses"}},
	{Verbs: read, Groups: []string{"storage.k8s.io"}, Resources: []string{"csidrivers"}},
	{Verbs: []string{"get", "create", "update", "patch", "delete"}, Groups: []string{"storage.k8s.io"}, Resources: []string{"csinodes"}},
	// Upstream's may publish devices for its drivers as well; drivers have
	// identities of their own.
	{Verbs: []string{"get", "list", "watch", "delete"}, Groups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}},
	{Verbs: []string{"get", "list", "watch", "create"}, Groups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}},
	// Deviation: upstream shows a kubelet only those of its own pods. They hold
	// no secrets.
	{Verbs: []string{"get", "list", "watch", "create"}, Groups: []string{"certificates.k8s.io"}, Resources: []string{"podcertificaterequests"}},
	{Verbs: read, Groups: []string{"certificates.k8s.io"}, Resources: []string{"clustertrustbundles"}},
	{Verbs: []string{"create"}, Groups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}},
	{Verbs: []string{"create"}, Groups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews", "localsubjectaccessreviews"}},
	events,
}

// nodeOf tells which node a user is.
func nodeOf(u *authn.User) (string, bool) {
	name, ok := strings.CutPrefix(u.Name, pki.NodeUserPrefix)
	return name, ok && name != "" && u.InGroup(pki.NodesGroup)
}

// NodeOf tells which node a user is.
func NodeOf(u *authn.User) (string, bool) { return nodeOf(u) }

func (n *Nodes) authorize(_ context.Context, node string, a *Attributes) (bool, string) {
	for i := range nodeRules {
		if nodeRules[i].Allows(a) {
			return n.own(node, a)
		}
	}
	if !a.IsResource {
		return false, ""
	}
	if a.Group == "storage.k8s.io" && a.Resource == "volumeattachments" {
		return n.related(node, a, []string{"get"}, "")
	}
	if a.Group == "resource.k8s.io" && a.Resource == "resourceclaims" {
		return n.related(node, a, []string{"get"}, "")
	}
	if a.Group != "" {
		return false, ""
	}
	switch a.Resource {
	case "secrets", "configmaps":
		return n.related(node, a, read, "")
	case "persistentvolumeclaims":
		if a.Subresource == "status" { // a file system that has grown
			return n.related(node, a, []string{"get", "update", "patch"}, "status")
		}
		return n.related(node, a, []string{"get"}, "")
	case "serviceaccounts":
		if a.Subresource == "token" {
			return n.related(node, a, []string{"create"}, "token")
		}
		return n.related(node, a, []string{"get"}, "")
	}
	return false, ""
}

// own keeps kubelets from each other's leases and CSINodes. The name of one that
// is being created is not known here; NodeRestriction looks at that.
func (n *Nodes) own(node string, a *Attributes) (bool, string) {
	if a.Name == "" || a.Name == node {
		return true, ""
	}
	switch a.Resource {
	case "leases":
		return false, fmt.Sprintf("node %q may only access the node lease of its own", node)
	case "csinodes":
		return false, fmt.Sprintf("node %q may only access the CSINode of its own", node)
	}
	return true, ""
}

func (n *Nodes) related(node string, a *Attributes, verbs []string, sub string) (bool, string) {
	if !slices.Contains(verbs, a.Verb) {
		return false, fmt.Sprintf("can only %s resources of this type", strings.Join(verbs, "/"))
	}
	if a.Subresource != sub {
		return false, "cannot read subresource"
	}
	if a.Name == "" {
		return false, "No Object name found"
	}
	if a.Resource == "volumeattachments" {
		if n.AttachedTo != nil && n.AttachedTo(a.Name) == node {
			return true, ""
		}
	} else if n.PodsOn != nil {
		for _, pod := range n.PodsOn(node) {
			if n.names(pod, a) || a.Resource == "secrets" && n.volumeNames(pod, a) {
				return true, ""
			}
		}
	}
	return false, fmt.Sprintf("no relationship found between node '%s' and this object", node)
}
