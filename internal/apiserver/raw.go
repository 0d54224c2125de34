package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Raw walks the whole path of a request, bytes included: what it is for has no
// shared object, and is asked for seldom.
func (p *inProcess) Raw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	u := url.URL{Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.RequestURI = r.URL.RequestURI()
	r.Header.Set("Accept", typeJSON)
	r.Header.Set("User-Agent", p.id.UserAgent)
	w := httptest.NewRecorder()
	p.s.exchange(w, r, p.user)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.Code < 300 {
		return w.Body.Bytes(), nil
	}
	status := metav1.Status{}
	if err := unmarshalJSON(w.Body.Bytes(), &status); err != nil || status.Kind != "Status" {
		return nil, apierrors.NewGenericServerResponse(w.Code, http.MethodGet, schema.GroupResource{}, "", w.Body.String(), 0, true)
	}
	return nil, &apierrors.StatusError{ErrStatus: status}
}
