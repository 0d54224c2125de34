package controllers

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/loop"
)

// Refused tells whether err is the server's word that a write did not and will
// not happen as it stands: worth telling a person. A time-out, a conflict or a
// busy server is not; such a write may even have happened.
func Refused(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest,
		metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotAcceptable, metav1.StatusReasonNotFound,
		metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonUnauthorized, metav1.StatusReasonUnsupportedMediaType:
		return true
	}
	return false
}

// Answered tells whether err came from the server before it did anything. Of a
// write that failed otherwise nobody knows whether it happened.
func Answered(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable:
		return false
	}
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// NamespaceEnding tells whether a creation was refused since its namespace is
// being deleted: nothing to retry, nothing to report.
func NamespaceEnding(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// WaitForNamespace is the outcome of a look that met a NamespaceEnding.
func WaitForNamespace(namespace string) (loop.Outcome, error) {
	return loop.WaitFor("Namespace "+namespace, "it is being deleted: nothing is created in it"), nil
}
