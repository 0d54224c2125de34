package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Namespaces have a life of their own: nothing is created where none is or
// where it is ending, and one goes only when spec.finalizers is empty, which
// says that everything in it has gone.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#namespacelifecycle

// immortal namespaces cannot be deleted.
var immortal = map[string]bool{"default": true, "kube-system": true, "kube-public": true}

// checkNamespaceLives refuses to create an object in a namespace that is
// missing or ending.
func (s *Server) checkNamespaceLives(c *call, obj kinds.Object) error {
	namespaces := s.catalog().namespaces
	if !c.sv.namespaced || namespaces == nil {
		return nil
	}
	rec, _, err := s.store.Get(c.ctx, namespaces.key("", c.namespace))
	if err != nil {
		return storeError(err)
	}
	if rec == nil {
		return apierrors.NewNotFound(namespaces.gr, c.namespace)
	}
	e, err := s.entryOf(namespaces, rec)
	if err != nil {
		return err
	}
	if ns, ok := e.obj.(*corev1.Namespace); ok && ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	refusal := apierrors.NewForbidden(c.sv.gr, obj.GetName(), fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.namespace))
	refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", c.namespace),
		Field:   "metadata.namespace",
	})
	return refusal
}

// prepareNamespace makes a new namespace wait, on deletion, for the loop that
// empties it.
func prepareNamespace(obj kinds.Object) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return
	}
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	for _, f := range ns.Spec.Finalizers {
		if f == corev1.FinalizerKubernetes {
			return
		}
	}
	ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
}

// holdsOn tells whether something besides metadata.finalizers keeps a deleted
// object.
func (res *resource) holdsOn(obj kinds.Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	return ok && res.isNamespaces && len(ns.Spec.Finalizers) > 0
}

// markTerminating sets the phase of a deleted namespace. Changes obj.
func markTerminating(obj kinds.Object) {
	if ns, ok := obj.(*corev1.Namespace); ok {
		ns.Status.Phase = corev1.NamespaceTerminating
	}
}

// finalizeView is the namespaces/finalize subresource: it changes
// spec.finalizers and nothing else.
func finalizeNamespace(obj, old kinds.Object) {
	ns, ok1 := obj.(*corev1.Namespace)
	was, ok2 := old.(*corev1.Namespace)
	if ok1 && ok2 {
		ns.Status = was.Status
		ns.Labels, ns.Annotations = was.Labels, was.Annotations
		ns.OwnerReferences, ns.Finalizers = was.OwnerReferences, was.Finalizers
	}
}
