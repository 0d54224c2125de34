package dynamic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
)

// warnLock guards a request's warnings: several webhooks may be asked at once.
var warnLock sync.Mutex

func warn(r *admission.Request, texts []string) {
	if len(texts) == 0 || r.Warn == nil {
		return
	}
	warnLock.Lock()
	defer warnLock.Unlock()
	r.Warn(texts...)
}

// ask sends the review and reads the answer. nil without an error is that of a
// webhook whose failures are let pass.
func (h *Hooks) ask(ctx context.Context, w *hook, r *admission.Request, v *view) (*admissionv1.AdmissionResponse, error) {
	if r.DryRun && w.sideEffects {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", w.name))
	}
	caller, err := w.caller()
	if err != nil {
		return nil, w.failed(err)
	}
	body, id, err := review(w, v)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	data, err := caller.post(limited, body, w.timeout)
	if err != nil {
		if ctx.Err() != nil {
			return nil, apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
		}
		return nil, w.failed(err)
	}
	response, err := answered(w, id, data)
	if err != nil {
		return nil, w.failed(err)
	}
	warn(r, response.Warnings)
	if !response.Allowed {
		return nil, refusal(w.name, response.Result)
	}
	return response, nil
}

// review writes an AdmissionReview. Both versions of it look the same.
func review(w *hook, v *view) (body []byte, id string, err error) {
	request := *v.request
	request.UID = uuid.NewUUID()
	object, err := encode(v.object)
	if err != nil {
		return nil, "", err
	}
	old, err := encode(v.old)
	if err != nil {
		return nil, "", err
	}
	request.Object, request.OldObject = runtime.RawExtension{Raw: object}, runtime.RawExtension{Raw: old}
	body, err = json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/" + w.version},
		Request:  &request,
	})
	return body, string(request.UID), err
}

// answered reads the answer to the review with that id.
func answered(w *hook, id string, data []byte) (*admissionv1.AdmissionResponse, error) {
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("received invalid webhook response: "+format, args...)
	}
	response := out.Response
	if response == nil {
		return nil, errors.New("webhook response was absent")
	}
	if w.version == "v1" {
		want := "admission.k8s.io/v1, Kind=AdmissionReview"
		if got := out.APIVersion + ", Kind=" + out.Kind; got != want {
			return nil, invalid("expected webhook response of %v, got %v", want, got)
		}
		if string(response.UID) != id {
			return nil, invalid("expected response.uid=%q, got %q", id, response.UID)
		}
		if len(response.Patch) > 0 && response.PatchType == nil {
			return nil, invalid("webhook returned response.patch but not response.patchType")
		}
	}
	if t := response.PatchType; t != nil && *t != admissionv1.PatchTypeJSONPatch {
		return nil, invalid("webhook returned invalid response.patchType of %q", *t)
	}
	return response, nil
}

// refusal is the status that a webhook gave, as a refusal that names it.
func refusal(name string, result *metav1.Status) error {
	by := fmt.Sprintf("admission webhook %q denied the request", name)
	if result == nil {
		result = &metav1.Status{}
	}
	if result.Code < http.StatusBadRequest {
		result.Code = http.StatusBadRequest
	}
	result.Status = metav1.StatusFailure
	switch {
	case result.Message != "":
		result.Message = by + ": " + result.Message
	case result.Reason != "":
		result.Message = by + ": " + string(result.Reason)
	default:
		result.Message = by + " without explanation"
	}
	return &apierrors.StatusError{ErrStatus: *result}
}
