package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/store"
)

// statusOf is the Status that an error leaves the server as.
func statusOf(err error) *metav1.Status {
	var status *metav1.Status
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		st := api.Status()
		status = &st
	} else if errors.Is(err, context.DeadlineExceeded) {
		st := apierrors.NewTimeoutError("request did not complete within requested timeout - context deadline exceeded", 0).Status()
		status = &st
	} else {
		status = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonUnknown, Message: err.Error()}
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	return status
}

// optimisticLock is the message of every lost race.
var errOptimisticLock = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// errTooLargeObject is what etcd says to an object above its limit.
var errTooLargeObject = errors.New("etcdserver: request is too large")

// Sizes that Kubernetes (the body) and etcd (the object) refuse above.
const (
	maxBody   = 3 << 20
	maxObject = 3 << 19
)

func errBodyTooLarge() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
}

func errUIDPrecondition(gr schema.GroupResource, name string, want, have any) error {
	return apierrors.NewConflict(gr, name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", want, have))
}

func errRVPrecondition(gr schema.GroupResource, name string, want, have any) error {
	return apierrors.NewConflict(gr, name, fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", want, have))
}

// errTooLargeRV answers a resourceVersion that this store has not reached.
func errTooLargeRV(want, have int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

func errListExpired() error {
	return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
}

func errWatchExpired(rv, oldest int64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", rv, oldest))
}

// errNoPage is for paths that lead nowhere: as in Kubernetes, whoever asks for
// one is no client of the API, and is answered in plain text.
var errNoPage = errors.New("404 page not found")

// errNotServed is the 404 for what is no resource of a group that is served.
func errNotServed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}

func errNotAcceptable(accepted string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + accepted,
	}}
}

func errUnsupportedMediaType(accepted string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + accepted,
	}}
}

// storeError turns what the store says of a read into what a client hears.
func storeError(err error) error {
	if errors.Is(err, store.ErrClosed) {
		return apierrors.NewServiceUnavailable("the server is shutting down")
	}
	return err
}
