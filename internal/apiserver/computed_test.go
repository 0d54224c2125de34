package apiserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver"
	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// What is not stored is made for whoever asks: read, listed and shown as any
// other kind, and not written.
func TestComputed(t *testing.T) {
	asked := 0
	status := func(name string, healthy corev1.ComponentCondition) kinds.Object {
		healthy.Type = corev1.ComponentHealthy
		return &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}, Conditions: []corev1.ComponentCondition{healthy}}
	}
	h := apitest.New(t, apitest.Options{Computed: map[string]apiserver.Computed{"componentstatuses": func(context.Context) []kinds.Object {
		asked++
		return []kinds.Object{
			status("scheduler", corev1.ComponentCondition{Status: corev1.ConditionTrue, Message: "ok"}),
			status("etcd-0", corev1.ComponentCondition{Status: corev1.ConditionFalse, Error: "disk full"}),
		}
	}}})
	const path, table = "/api/v1/componentstatuses", "application/json;as=Table;v=v1;g=meta.k8s.io"
	const etcd = `"metadata":{"name":"etcd-0","labels":{"name":"etcd-0"}},"conditions":[{"type":"Healthy","status":"False","error":"disk full"}]}`
	for _, tc := range []struct {
		name, method, path, accept string
		code                       int
		want                       string
	}{
		{"get", "GET", path + "/etcd-0", "", 200, `{"kind":"ComponentStatus","apiVersion":"v1",` + etcd},
		{"get what is not there", "GET", path + "/none", "", 404, `componentstatuses \"none\" not found`},
		{"list", "GET", path, "", 200, `{"kind":"ComponentStatusList","apiVersion":"v1","metadata":{},"items":[{` + etcd + `,{"metadata":{"name":"scheduler"`},
		{"list by label", "GET", path + "?labelSelector=name%3Detcd-0", "", 200, `"items":[{` + etcd + `]}`},
		{"list by name", "GET", path + "?fieldSelector=metadata.name%3Detcd-0", "", 200, `"items":[{` + etcd + `]}`},
		{"list by another field", "GET", path + "?fieldSelector=metadata.name%21%3Dscheduler", "", 200, `"items":[{` + etcd + `]}`},
		{"table", "GET", path, table, 200, `"cells":["etcd-0","Unhealthy","","disk full"]`},
		{"table row", "GET", path + "/scheduler", table, 200, `"cells":["scheduler","Healthy","ok",""]`},
		{"create", "POST", path, "", 405, `MethodNotAllowed`},
		{"update", "PUT", path + "/etcd-0", "", 405, `MethodNotAllowed`},
		{"delete", "DELETE", path + "/etcd-0", "", 405, `MethodNotAllowed`},
		{"watch", "GET", path + "?watch=true", "", 405, `MethodNotAllowed`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(`{"metadata":{"name":"etcd-0"}}`))
			if tc.method == http.MethodGet {
				r.Body, r.ContentLength = http.NoBody, 0
			}
			if tc.accept != "" {
				r.Header.Set("Accept", tc.accept)
			}
			w := httptest.NewRecorder()
			h.Server.ServeHTTP(w, r)
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
				t.Errorf("%s %s: %d %s\nwant %d, %s", tc.method, tc.path, w.Code, w.Body, tc.code, tc.want)
			}
			if warning := w.Header().Get("Warning"); tc.code != 405 && warning != `299 - "v1 ComponentStatus is deprecated in v1.19+"` {
				t.Errorf("the warning is %q", warning)
			}
		})
	}
	if asked != 8 {
		t.Errorf("they were made %d times", asked)
	}
	list, _, err := h.Client("loop").List(t.Context(), corev1.SchemeGroupVersion.WithResource("componentstatuses"), "", metav1.ListOptions{})
	if err != nil || len(list) != 2 {
		t.Errorf("a loop lists %v, %v", list, err)
	}
}
