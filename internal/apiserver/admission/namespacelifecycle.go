package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

var namespaces = client.Resource{Version: "v1", Resource: "namespaces"}

// NamespaceLifecycle keeps objects out of namespaces that do not exist or are
// being deleted, and keeps the namespaces that every cluster has.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#namespacelifecycle
type NamespaceLifecycle struct {
	Get GetFunc
	mutateOnly
}

// immortal namespaces may not be deleted.
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// Name implements Plugin.
func (*NamespaceLifecycle) Name() string { return "NamespaceLifecycle" }

// Admit implements Plugin. It refuses here and not in Validate, so that no
// later plugin works for a request that is bound to fail.
func (p *NamespaceLifecycle) Admit(ctx context.Context, r *Request) error {
	if r.Resource == namespaces.GroupResource() {
		if r.Operation == Delete && slices.Contains(immortal, r.objectName()) {
			return r.forbidden("this namespace may not be deleted")
		}
		return nil
	}
	if r.Namespace == "" || r.Operation == Delete || isAccessReview(r) {
		return nil
	}
	obj, err := p.Get(ctx, namespaces, "", r.Namespace)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return apierrors.NewNotFound(namespaces.GroupResource(), r.Namespace)
		}
		return apierrors.NewInternalError(fmt.Errorf("look up namespace %s: %w", r.Namespace, err))
	}
	if r.Operation != Create || !terminating(obj) {
		return nil
	}
	refusal := r.forbidden(fmt.Sprintf("unable to create new content in namespace %s because it is being terminated", r.Namespace))
	refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", r.Namespace),
		Field:   "metadata.namespace",
	})
	return refusal
}

func terminating(obj client.Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	return obj.GetDeletionTimestamp() != nil || ok && ns.Status.Phase == corev1.NamespaceTerminating
}

// isAccessReview: a question about a namespace may be asked whatever its state.
func isAccessReview(r *Request) bool {
	return r.Resource.Group == "authorization.k8s.io" && r.Resource.Resource == "localsubjectaccessreviews"
}
