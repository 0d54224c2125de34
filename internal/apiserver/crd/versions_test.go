package crd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/crd"
	"github.com/setpoint-project/setpoint/internal/client"
)

// twoVersions has a field that v1 calls "size" and v2 "width".
const twoVersions = `
metadata: {name: boxes.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: boxes, kind: Box}
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.size}]
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, replicas: {type: integer}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
  - name: v2
    served: true
    storage: false
    deprecated: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {width: {type: integer}, color: {type: string, default: red}, replicas: {type: integer}}}}}}
`

var (
	boxes1 = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "boxes"}
	boxes2 = schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "boxes"}
)

const aBox = `
apiVersion: example.com/v1
kind: Box
metadata: {name: one}
spec: {size: 3, replicas: 2}
`

// Without a webhook versions differ by name: what a version does not know is
// not shown in it, and its defaults are.
func TestVersionsByName(t *testing.T) {
	inBubble(t, func(w *world) {
		w.define(twoVersions)
		w.make(boxes1, aBox)
		got, err := w.Get(w.ctx, boxes2, "", "one")
		if err != nil {
			t.Fatal(err)
		}
		u := got.(*unstructured.Unstructured)
		if diff := cmp.Diff(map[string]any{"color": "red", "replicas": int64(2)}, u.Object["spec"]); diff != "" || u.GetAPIVersion() != "example.com/v2" {
			t.Errorf("%s (-want +got):\n%s", u.GetAPIVersion(), diff)
		}
		for selector, want := range map[string]int{"spec.size=3": 1, "spec.size!=3": 0, "spec.size=4": 0} {
			found, _, err := w.List(w.ctx, boxes1, "", metav1.ListOptions{FieldSelector: selector})
			if err != nil || len(found) != want {
				t.Errorf("%s finds %d, %v; want %d", selector, len(found), err, want)
			}
		}
		if _, _, err := w.List(w.ctx, boxes2, "", metav1.ListOptions{FieldSelector: "spec.size=3"}); err == nil {
			t.Error("v2 has no selectable fields, and took one")
		}
	})
}

// Scale is a view of what lies at the paths that the definition names.
func TestScale(t *testing.T) {
	inBubble(t, func(w *world) {
		w.define(twoVersions)
		w.make(boxes1, aBox)
		patched, err := w.Patch(w.ctx, boxes1, "", "one", "application/merge-patch+json", []byte(`{"spec":{"replicas":5}}`), "scale")
		if err != nil {
			t.Fatal(err)
		}
		if patched.GetName() != "one" {
			t.Errorf("scale is %v", patched)
		}
		got, err := w.Get(w.ctx, boxes1, "", "one")
		if err != nil {
			t.Fatal(err)
		}
		if n, _, _ := unstructured.NestedInt64(got.(*unstructured.Unstructured).Object, "spec", "replicas"); n != 5 {
			t.Errorf("replicas %d after scaling to 5", n)
		}
	})
}

// Each version is scaled by its own path, and the field that it changes there
// belongs to who did it, in that version.
func TestScaleByVersion(t *testing.T) {
	inBubble(t, func(w *world) {
		w.define(`
metadata: {name: fleets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: fleets, kind: Fleet}
  versions:
  - name: v2
    served: true
    storage: true
    schema: {openAPIV3Schema: &s {type: object, properties: {spec: {type: object, properties: {ships: {type: integer}, boats: {type: integer}}}}}}
    subresources: {scale: {specReplicasPath: .spec.ships, statusReplicasPath: .status.ships}}
  - name: v1
    served: true
    storage: false
    schema: {openAPIV3Schema: *s}
    subresources: {scale: {specReplicasPath: .spec.boats, statusReplicasPath: .status.boats}}
`)
		version := func(v string) schema.GroupVersionResource {
			return schema.GroupVersionResource{Group: "example.com", Version: v, Resource: "fleets"}
		}
		scale := func(v, name, patch string) int32 {
			t.Helper()
			got, err := w.Patch(w.ctx, version(v), "", name, "application/merge-patch+json", []byte(patch), "scale")
			if err != nil {
				t.Fatal(err)
			}
			return got.(*autoscalingv1.Scale).Spec.Replicas
		}
		for _, c := range []struct {
			version, other string
			spec           map[string]any
			owned          string
		}{
			{"v1", "v2", map[string]any{"boats": int64(7), "ships": int64(1)}, `example.com/v1 {"f:spec":{"f:boats":{}}}`},
			{"v2", "v1", map[string]any{"boats": int64(2), "ships": int64(7)}, `example.com/v2 {"f:spec":{"f:ships":{}}}`},
		} {
			name := "of-" + c.version
			w.make(version("v1"), "apiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: "+name+"}\nspec: {ships: 1, boats: 2}\n")
			for _, v := range []string{"v1", "v2", "v1"} { // changes nothing, and nobody's property
				if n, want := scale(v, name, "{}"), map[string]int32{"v1": 2, "v2": 1}[v]; n != want {
					t.Errorf("in %s it is scaled to %d, want %d", v, n, want)
				}
			}
			if n := scale(c.version, name, `{"spec":{"replicas":7}}`); n != 7 {
				t.Errorf("in %s it is scaled to %d", c.version, n)
			}
			got, err := w.Get(w.ctx, version(c.other), "", name)
			if err != nil {
				t.Fatal(err)
			}
			u := got.(*unstructured.Unstructured)
			if diff := cmp.Diff(c.spec, u.Object["spec"]); diff != "" {
				t.Errorf("scaled in %s (-want +got):\n%s", c.version, diff)
			}
			owned := ""
			for _, m := range u.GetManagedFields() {
				if m.Subresource == "scale" {
					owned += m.APIVersion + " " + string(m.FieldsV1.Raw)
				}
			}
			if owned != c.owned || len(u.GetManagedFields()) != 2 {
				t.Errorf("who scaled owns %s, want %s", owned, c.owned)
			}
		}
	})
}

// When another version is stored from now on, what lies there is read as
// before.
func TestStorageVersionChange(t *testing.T) {
	inBubble(t, func(w *world) {
		w.define(twoVersions)
		w.make(boxes1, aBox)
		if err := w.redefine("boxes.example.com", func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Versions[0].Storage, d.Spec.Versions[1].Storage = false, true
		}); err != nil {
			t.Fatal(err)
		}
		if d := w.definition("boxes.example.com"); !slices.Equal(d.Status.StoredVersions, []string{"v1", "v2"}) {
			t.Errorf("stored versions %v", d.Status.StoredVersions)
		}
		got, err := w.Get(w.ctx, boxes2, "", "one")
		if err != nil {
			t.Fatal(err)
		}
		if c, _, _ := unstructured.NestedString(got.(*unstructured.Unstructured).Object, "spec", "color"); c != "red" {
			t.Errorf("read %v", got)
		}
	})
}

// renames is a webhook that calls a field by another name.
func renames(t *testing.T) *httptest.Server {
	return httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		out := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: "Success"}}
		for _, in := range review.Request.Objects {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(in.Raw); err != nil {
				t.Error(err)
			}
			spec := u.Object["spec"].(map[string]any)
			old, new := "size", "width"
			if strings.HasSuffix(review.Request.DesiredAPIVersion, "v1") {
				old, new = new, old
			}
			spec[new] = spec[old]
			delete(spec, old)
			u.SetAPIVersion(review.Request.DesiredAPIVersion)
			raw, _ := u.MarshalJSON()
			out.ConvertedObjects = append(out.ConvertedObjects, runtime.RawExtension{Raw: raw})
		}
		review.Request, review.Response = nil, out
		json.NewEncoder(rw).Encode(&review)
	}))
}

// defineBy creates the definition of boxes, converted by a webhook, and waits
// until it is served.
func defineBy(t *testing.T, c client.Interface, hook *httptest.Server, change ...func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	ctx := t.Context()
	d := definition(t, twoVersions)
	url := hook.URL
	d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ConversionReviewVersions: []string{"v1"},
		ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: pemOf(hook.Certificate().Raw)},
	}}
	for _, f := range change {
		f(d)
	}
	if _, err := c.Create(ctx, crd.Definitions, d); err != nil {
		t.Fatal(err)
	}
	established(t, c)
}

// established waits until a definition is served.
func established(t *testing.T, c client.Interface) {
	t.Helper()
	seen, err := c.Watch(t.Context(), crd.Definitions, "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	for ev := range seen.ResultChan() {
		if slices.Contains(conditions(ev.Object.(*apiextensionsv1.CustomResourceDefinition)), "Established=True InitialNamesAccepted") {
			return
		}
	}
	t.Fatal("the definition is not established")
}

// A webhook converts, on the way in as on the way out.
func TestWebhook(t *testing.T) {
	hook := renames(t)
	defer hook.Close()
	h := apitest.New(t, apitest.Options{})
	c, ctx := h.Client("admin"), t.Context()
	defineBy(t, c, hook)
	wide := object(t, strings.NewReplacer("/v1", "/v2", "size", "width").Replace(aBox))
	if _, err := c.Create(ctx, boxes2, wide); err != nil {
		t.Fatal(err)
	}
	for res, want := range map[client.Resource]map[string]any{
		boxes1: {"size": int64(3), "replicas": int64(2)},
		boxes2: {"width": int64(3), "replicas": int64(2), "color": "red"},
	} {
		got, err := c.Get(ctx, res, "", "one")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.(*unstructured.Unstructured).Object["spec"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", res.Version, diff)
		}
	}
}

// Where a webhook fails, metadata is shown all the same, and nobody is told that
// what cannot be converted is gone.
func TestFailingWebhook(t *testing.T) {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no", http.StatusInternalServerError) }))
	defer hook.Close()
	h := apitest.New(t, apitest.Options{})
	c, ctx := h.Client("admin"), t.Context()
	defineBy(t, c, hook)
	metadata := make(chan string, 10)
	c.View(boxes2, client.ViewOptions{Metadata: true}).Handle(func(old, now client.Object) {
		metadata <- fmt.Sprint(old != nil, now != nil)
	})
	whole := make(chan string, 10)
	c.View(boxes2, client.ViewOptions{}).Handle(func(old, now client.Object) { whole <- fmt.Sprint(old != nil, now != nil) })
	box := object(t, aBox)
	if _, err := c.Create(ctx, boxes1, box); err != nil {
		t.Fatal(err)
	}
	if got := <-metadata; got != "false true" {
		t.Errorf("a new object is told as (%s)", got)
	}
	if _, err := c.Patch(ctx, boxes1, "", "one", "application/merge-patch+json", []byte(`{"spec":{"size":4}}`)); err != nil {
		t.Fatal(err)
	}
	if got := <-metadata; got != "true true" {
		t.Errorf("a change is told as (%s)", got)
	}
	if err := c.Delete(ctx, boxes1, "", "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-metadata; got != "true false" {
		t.Errorf("a deletion is told as (%s)", got)
	}
	select {
	case got := <-whole:
		t.Errorf("a view of what cannot be converted tells (%s)", got)
	default:
	}
	// Those who come later see what is there.
	if _, err := c.Create(ctx, boxes1, object(t, aBox)); err != nil {
		t.Fatal(err)
	}
	<-metadata
	late := make(chan client.Object, 10)
	c.View(boxes2, client.ViewOptions{Metadata: true}).Handle(func(_, now client.Object) { late <- now })
	if now := <-late; now == nil || now.GetName() != "one" {
		t.Errorf("a handler that comes late is told %v", now)
	}
}
