package apiserver_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	pods       = corev1.SchemeGroupVersion.WithResource("pods")
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// web sends plain HTTP to a server.
type web struct {
	t      testing.TB
	client *http.Client
	url    string
}

func newWeb(t testing.TB, h *apitest.Harness) *web {
	return &web{t: t, client: h.HTTP.Client(), url: h.HTTP.URL}
}

// do sends a request. Headers are "Name: value".
func (w *web) do(method, path, body string, headers ...string) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Content-Type" {
			r.Header.Del(name)
		}
		r.Header.Add(name, value)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(data)
}

// want sends a request and checks the code.
func (w *web) want(code int, method, path, body string, headers ...string) string {
	w.t.Helper()
	resp, got := w.do(method, path, body, headers...)
	if resp.StatusCode != code {
		w.t.Fatalf("%s %s: got %d, want %d: %s", method, path, resp.StatusCode, code, got)
	}
	return got
}

func decode[T any](t testing.TB, data string) *T {
	t.Helper()
	out := new(T)
	if err := json.Unmarshal([]byte(data), out); err != nil {
		t.Fatalf("decode %s: %v", data, err)
	}
	return out
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
	}
	for i := 0; i+1 < len(data); i += 2 {
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data[data[i]] = data[i+1]
	}
	return cm
}

func toJSON(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// newRESTClient is client-go's typed client for the core group, in one media
// type.
func newRESTClient(t testing.TB, h *apitest.Harness, contentType string) *rest.RESTClient {
	t.Helper()
	cfg := h.Config()
	cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
	cfg.ContentType, cfg.AcceptContentTypes = contentType, contentType
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
