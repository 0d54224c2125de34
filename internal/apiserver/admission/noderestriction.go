package admission

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/client"
)

// NodeRestriction lets a kubelet change its own node, the pods bound to it, its
// own lease and what it has to say of the volumes on it, and no other.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
type NodeRestriction struct {
	Get GetFunc
	// NodeOf tells which node a user is (authz.NodeOf).
	NodeOf func(*authn.User) (string, bool)
	mutateOnly
}

// Name implements Plugin.
func (*NodeRestriction) Name() string { return "NodeRestriction" }

// Admit implements Plugin. It is not left to Validate, so that a refused
// request has no effects to undo.
func (p *NodeRestriction) Admit(ctx context.Context, r *Request) error {
	if r.User == nil {
		return nil
	}
	node, ok := p.NodeOf(r.User)
	if !ok {
		return nil
	}
	switch r.Resource.String() {
	case "nodes":
		return admitNode(r, node)
	case "pods":
		return p.admitPod(ctx, r, node)
	case "leases.coordination.k8s.io":
		return admitLease(r, node)
	case "podcertificaterequests.certificates.k8s.io":
		return p.admitPodCertificate(ctx, r, node)
	case "persistentvolumes":
		return admitVolume(r, node)
	case "persistentvolumeclaims":
		return admitClaim(r, node)
	case "resourceslices.resource.k8s.io":
		if s, ok := r.Old.(*resourcev1.ResourceSlice); ok && (s.Spec.NodeName == nil || *s.Spec.NodeName != node) {
			return r.forbidden("can only delete ResourceSlices with the same nodeName as the requesting node")
		}
	case "csinodes.storage.k8s.io":
		if r.objectName() != node {
			return r.forbidden("can only access CSINode with the same name as the requesting node")
		}
	}
	return nil
}

func admitNode(r *Request, node string) error {
	if name := r.objectName(); name != node {
		return r.forbidden(fmt.Sprintf("node %q is not allowed to modify node %q", node, name))
	}
	if r.Operation != Update {
		return nil
	}
	updated, ok1 := r.Object.(*corev1.Node)
	before, ok2 := r.Old.(*corev1.Node)
	if !ok1 || !ok2 || r.Subresource != "" {
		return nil
	}
	// A node could make itself attractive to pods that are not meant for it,
	// or cast off a taint.
	if len(updated.Spec.Taints) != len(before.Spec.Taints) {
		return r.forbidden(fmt.Sprintf("node %q is not allowed to modify taints", node))
	}
	for i := range updated.Spec.Taints {
		if !updated.Spec.Taints[i].MatchTaint(&before.Spec.Taints[i]) || updated.Spec.Taints[i].Value != before.Spec.Taints[i].Value {
			return r.forbidden(fmt.Sprintf("node %q is not allowed to modify taints", node))
		}
	}
	for _, m := range []map[string]string{updated.Labels, before.Labels} {
		for key := range m {
			if strings.HasPrefix(key, corev1.LabelNamespaceNodeRestriction+"/") && updated.Labels[key] != before.Labels[key] {
				return r.forbidden(fmt.Sprintf("is not allowed to modify labels: %s", key))
			}
		}
	}
	return nil
}

func (p *NodeRestriction) admitPod(ctx context.Context, r *Request, node string) error {
	pod, _ := r.Old.(*corev1.Pod)
	if r.Operation == Create {
		if r.Subresource == "eviction" {
			obj, err := p.Get(ctx, client.Resource{Version: "v1", Resource: "pods"}, r.Namespace, r.objectName())
			if err != nil {
				if apierrors.IsNotFound(err) {
					return err
				}
				return apierrors.NewInternalError(err)
			}
			pod, _ = obj.(*corev1.Pod)
		} else {
			pod, _ = r.Object.(*corev1.Pod)
			if pod != nil && !isMirror(pod) {
				return r.forbidden(fmt.Sprintf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node))
			}
		}
	}
	if pod == nil || pod.Spec.NodeName != node {
		return r.forbidden(fmt.Sprintf("node %q can only %s pods with spec.nodeName set to itself", node, verb(r)))
	}
	return nil
}

func verb(r *Request) string {
	if r.Subresource == "eviction" {
		return "evict"
	}
	if r.Subresource == "status" {
		return "update pod status for"
	}
	return strings.ToLower(string(r.Operation))
}

func admitLease(r *Request, node string) error {
	if r.Namespace != corev1.NamespaceNodeLease {
		return r.forbidden(fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease))
	}
	if r.objectName() != node {
		return r.forbidden("can only access node lease with the same name as the requesting node")
	}
	return nil
}
