package dynamic_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/admission/dynamic"
	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/apply"
	"github.com/setpoint-project/setpoint/internal/client"
)

// world is an API server with the plugins.
type world struct {
	t *testing.T
	*apitest.Harness
	client.Interface
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	hooks := dynamic.New(dynamic.Config{
		Get: func(ctx context.Context, res client.Resource, ns, name string) (client.Object, error) {
			return w.Get(ctx, res, ns, name)
		},
		List: func(ctx context.Context, res client.Resource, ns string) ([]client.Object, error) {
			list, _, err := w.Interface.List(ctx, res, ns, metav1.ListOptions{})
			return list, err
		},
		Resource: func(apiVersion, kind string) (client.Resource, bool, bool) {
			return client.ConfigMaps, true, apiVersion == "v1" && kind == "ConfigMap"
		},
		Fields: func(gr schema.GroupResource, sub string) *apply.Kind { return w.Server.Fields(gr, sub) },
	})
	w.Harness = apitest.New(t, apitest.Options{Admission: []admission.Plugin{tidy{}, hooks.Mutations(), hooks.Mutating(), hooks.Policies(), hooks.Validating()}})
	w.Interface = w.Client("root")
	hooks.Open(w.view)
	return w
}

// tidy is a plugin before all others: it counts in the label "tidy", where
// there is one, how often it was asked.
type tidy struct{}

func (tidy) Name() string                                       { return "Tidy" }
func (tidy) Validate(context.Context, *admission.Request) error { return nil }
func (tidy) Admit(_ context.Context, r *admission.Request) error {
	if cm, ok := r.Object.(*corev1.ConfigMap); ok && cm.Labels["tidy"] != "" {
		cm.Labels["tidy"] += "t"
	}
	return nil
}

func (w *world) view(res client.Resource) client.View { return w.View(res, client.ViewOptions{}) }

// apply makes an object of YAML and waits until the plugins know it.
func (w *world) apply(resource string, obj client.Object, text string) {
	w.t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		w.t.Fatal(err)
	}
	res := admissionregistrationv1.SchemeGroupVersion.WithResource(resource)
	seen := make(chan struct{})
	var once sync.Once
	// Handlers are called in the order in which they came: the plugins' is done
	// when this one is called.
	remove := w.view(res).Handle(func(_, now client.Object) {
		if now != nil && now.GetName() == obj.GetName() {
			once.Do(func() { close(seen) })
		}
	})
	defer remove()
	if _, err := w.Create(context.Background(), res, obj); err != nil {
		w.t.Fatal(err)
	}
	<-seen
}

func (w *world) configMap(name string, labels map[string]string) (*corev1.ConfigMap, error) {
	obj, err := w.Create(context.Background(), client.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.ConfigMap), nil
}

// hookServer answers reviews by path.
type hookServer struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // path and what of, guarded by mu
	last  *admissionv1.AdmissionRequest
}

type answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

func serveHooks(t *testing.T, answers map[string]answer) *hookServer {
	t.Helper()
	s := &hookServer{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.Path+" "+string(review.Request.Operation)+" "+review.Request.Name)
		s.last = review.Request
		s.mu.Unlock()
		f := answers[r.URL.Path]
		if f == nil {
			http.Error(rw, "no such hook", http.StatusNotFound)
			return
		}
		review.Response = f(review.Request)
		review.Response.UID = review.Request.UID
		json.NewEncoder(rw).Encode(&review)
	}))
	t.Cleanup(s.Close)
	return s
}

// take returns what was asked since the last time.
func (s *hookServer) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.asked, ", ")
	s.asked = nil
	return out
}

// clientConfig of one path.
func (s *hookServer) clientConfig(path string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	data, _ := json.Marshal(map[string]any{"url": s.URL + path, "caBundle": ca})
	return string(data)
}

func allow(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// setLabel patches a label in.
func setLabel(key, value string) answer {
	return func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		var obj metav1.PartialObjectMetadata
		json.Unmarshal(r.Object.Raw, &obj)
		patch := `[{"op": "add", "path": "/metadata/labels/` + key + `", "value": "` + value + `"}]`
		if obj.Labels == nil {
			patch = `[{"op": "add", "path": "/metadata/labels", "value": {"` + key + `": "` + value + `"}}]`
		}
		t := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &t}
	}
}
