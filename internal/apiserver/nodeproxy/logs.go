package nodeproxy

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

func (p *Proxy) logs(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return apierrors.NewMethodNotSupported(pods.GroupResource(), a.Verb)
	}
	q := r.URL.Query()
	query, err := logQuery(q, a.Name)
	if err != nil {
		return err
	}
	pod, err := get[*corev1.Pod](r.Context(), p, pods, a.Namespace, a.Name)
	if err != nil {
		return err
	}
	container, err := containerOf(pod, q.Get("container"))
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		// Nothing runs yet, so nothing has been said yet.
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusOK)
		return nil
	}
	to, err := p.locate(r.Context(), pod, "/containerLogs/"+pod.Namespace+"/"+pod.Name+"/"+container, query)
	if err != nil {
		return err
	}
	check := kubeletErrors(pods.GroupResource(), pod.Name)
	if wantsSocket(r) {
		return p.logSocket(w, r, to, check)
	}
	forward(w, r, to, p.kubelets, check)
	return nil
}

// logQuery checks the options and translates them for the kubelet.
func logQuery(q url.Values, pod string) (url.Values, error) {
	out := url.Values{}
	var errs field.ErrorList
	for _, name := range []string{"follow", "previous", "timestamps"} {
		if flag(q, name) {
			out.Set(name, "true")
		}
	}
	number := func(name string, least int64) {
		if !q.Has(name) {
			return
		}
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(field.NewPath(name), q.Get(name), "must be an integer"))
		case n < least:
			errs = append(errs, field.Invalid(field.NewPath(name), n, fmt.Sprintf("must be greater than or equal to %d", least)))
		default:
			out.Set(name, strconv.FormatInt(n, 10))
		}
	}
	number("tailLines", 0)
	number("limitBytes", 1)
	number("sinceSeconds", 1)
	if since := q.Get("sinceTime"); since != "" {
		if _, err := time.Parse(time.RFC3339, since); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("sinceTime"), since, "must be a time as in RFC 3339"))
		}
		if q.Has("sinceSeconds") {
			errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
		}
		out.Set("sinceTime", since)
	}
	if stream := q.Get("stream"); stream != "" {
		switch stream {
		case corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr:
			out.Set("stream", stream)
		default:
			errs = append(errs, field.NotSupported(field.NewPath("stream"), stream, []string{corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr}))
		}
		if stream != corev1.LogStreamAll && q.Has("tailLines") {
			errs = append(errs, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
		}
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), pod, errs)
	}
	return out, nil
}
