package dynamic_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/admission/dynamic"
	"github.com/setpoint-project/setpoint/internal/client"
)

const maps = `rules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}], sideEffects: None, admissionReviewVersions: [v1]`

func (w *world) mutatingHooks(name, hooks string) {
	w.t.Helper()
	w.apply("mutatingwebhookconfigurations", &admissionregistrationv1.MutatingWebhookConfiguration{}, `{metadata: {name: `+name+`}, webhooks: [`+hooks+`]}`)
}

func (w *world) validatingHooks(name, hooks string) {
	w.t.Helper()
	w.apply("validatingwebhookconfigurations", &admissionregistrationv1.ValidatingWebhookConfiguration{}, `{metadata: {name: `+name+`}, webhooks: [`+hooks+`]}`)
}

func TestMutatingWebhooks(t *testing.T) {
	w := newWorld(t)
	s := serveHooks(t, map[string]answer{
		"/a": setLabel("a", "1"), "/allow": allow,
		"/b": func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if strings.Contains(string(r.Object.Raw), `"a":"1"`) {
				return setLabel("b", "after-a")(r)
			}
			return setLabel("b", "before-a")(r)
		},
	})
	// In the order of the configurations' names; "first" wants to see what
	// those after it did.
	w.mutatingHooks("c1", `{name: first.a.example, reinvocationPolicy: IfNeeded, clientConfig: `+s.clientConfig("/b")+`, `+maps+`}`)
	w.mutatingHooks("c2", `{name: second.a.example, clientConfig: `+s.clientConfig("/a")+`, `+maps+`}, {name: third.a.example, clientConfig: `+s.clientConfig("/allow")+`, `+maps+`}`)
	got, err := w.configMap("x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Labels["a"] != "1" || got.Labels["b"] != "after-a" {
		t.Errorf("labels %v", got.Labels)
	}
	if asked, want := s.take(), "/b CREATE x, /a CREATE x, /allow CREATE x, /b CREATE x"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	changed := got.DeepCopy()
	changed.Labels, changed.Data = nil, map[string]string{"k": "v"}
	updated, err := w.Update(context.Background(), client.ConfigMaps, changed)
	if err != nil {
		t.Fatal(err)
	}
	if updated.GetLabels()["a"] != "1" {
		t.Errorf("labels after the update: %v", updated.GetLabels())
	}
	r := s.last
	if r.Kind.Kind != "ConfigMap" || r.Resource.Resource != "configmaps" || r.Namespace != "default" || r.UserInfo.Username != "root" ||
		!strings.Contains(string(r.OldObject.Raw), `"kind":"ConfigMap"`) || !strings.Contains(string(r.Options.Raw), "UpdateOptions") {
		t.Errorf("request %+v", r)
	}
}

func TestValidatingWebhooks(t *testing.T) {
	w := newWorld(t)
	s := serveHooks(t, map[string]answer{
		"/allow": allow,
		"/deny": func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "not today", Code: 403, Reason: metav1.StatusReasonForbidden}}
		},
		"/silent": func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{}
		},
	})
	select_ := func(value string) string { return `objectSelector: {matchLabels: {hook: ` + value + `}}, ` }
	w.validatingHooks("c", strings.Join([]string{
		`{name: deny.a.example, ` + select_("deny") + `clientConfig: ` + s.clientConfig("/deny") + `, ` + maps + `}`,
		`{name: silent.a.example, ` + select_("silent") + `clientConfig: ` + s.clientConfig("/silent") + `, ` + maps + `}`,
		`{name: gone.a.example, ` + select_("gone") + `clientConfig: ` + s.clientConfig("/gone") + `, ` + maps + `}`,
		`{name: ignored.a.example, failurePolicy: Ignore, ` + select_("ignored") + `clientConfig: ` + s.clientConfig("/gone") + `, ` + maps + `}`,
		`{name: elsewhere.a.example, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, ` + select_("elsewhere") + `clientConfig: ` + s.clientConfig("/deny") + `, ` + maps + `}`,
		`{name: conditions.a.example, ` + select_("conditions") + `matchConditions: [{name: c, expression: "object.metadata.name.startsWith('bad') && request.userInfo.username == 'root' && namespaceObject.metadata.name == 'default'"}], clientConfig: ` + s.clientConfig("/deny") + `, ` + maps + `}`,
	}, ","))
	for _, tc := range []struct{ name, hook, want string }{
		{"x", "none", ""},
		{"x", "deny", `admission webhook "deny.a.example" denied the request: not today`},
		{"x", "silent", `admission webhook "silent.a.example" denied the request without explanation`},
		{"x", "gone", `Internal error occurred: failed calling webhook "gone.a.example": failed to call webhook: the server answered 404 Not Found: no such hook`},
		{"y", "ignored", ""},
		{"z", "elsewhere", ""},
		{"good", "conditions", ""},
		{"bad", "conditions", `admission webhook "conditions.a.example" denied the request: not today`},
	} {
		_, err := w.configMap(tc.name, map[string]string{"hook": tc.hook})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.hook, got, tc.want)
		}
	}
	if _, err := w.configMap("f", map[string]string{"hook": "deny"}); !apierrors.IsForbidden(err) {
		t.Errorf("the webhook's reason is lost: %v", err)
	}
	s.take()
	if err := w.Delete(context.Background(), client.ConfigMaps, "default", "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if asked := s.take(); asked != "" {
		t.Errorf("asked %s about an object without the label", asked)
	}
}

// TestEquivalentVersions: a rule for one version means objects of another,
// which it is shown in its own.
func TestEquivalentVersions(t *testing.T) {
	w := newWorld(t)
	s := serveHooks(t, map[string]answer{"/allow": allow, "/deny": func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{}
	}})
	const rest = `sideEffects: None, admissionReviewVersions: [v1], rules: [{operations: [CREATE], apiGroups: [autoscaling], apiVersions: [v2], resources: [horizontalpodautoscalers]}]`
	w.validatingHooks("c", `{name: exact.a.example, matchPolicy: Exact, clientConfig: `+s.clientConfig("/deny")+`, `+rest+`}, {name: any.a.example, clientConfig: `+s.clientConfig("/allow")+`, `+rest+`}`)
	hpa := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "h"},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "d"}, MaxReplicas: 3, TargetCPUUtilizationPercentage: new(int32(50)),
		},
	}
	if _, err := w.Create(context.Background(), autoscalingv1.SchemeGroupVersion.WithResource("horizontalpodautoscalers"), hpa); err != nil {
		t.Fatal(err)
	}
	if r := s.last; r == nil || r.Kind.Version != "v2" || r.RequestKind.Version != "v1" || !strings.Contains(string(r.Object.Raw), "averageUtilization") {
		t.Errorf("request %+v", r)
	}
}

// TestConfigurationsAreExempt: nobody can shut themselves out.
func TestConfigurationsAreExempt(t *testing.T) {
	w := newWorld(t)
	w.validatingHooks("all", `{name: all.a.example, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/"}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]}`)
	if _, err := w.configMap("x", nil); !apierrors.IsInternalError(err) {
		t.Fatalf("got %v", err)
	}
	res := admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
	if err := w.Delete(context.Background(), res, "", "all", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestNothingCostsNothing: without configurations a request pays for a look.
func TestNothingCostsNothing(t *testing.T) {
	h := dynamic.New(dynamic.Config{})
	ctx, r := context.Background(), &admission.Request{}
	plugins := []admission.Plugin{h.Mutating(), h.Validating(), h.Policies()}
	least := 1.0 // of some tries: others in this process may allocate meanwhile
	for range 10 {
		least = min(least, testing.AllocsPerRun(100, func() {
			for _, p := range plugins {
				if p.Admit(ctx, r) != nil || p.Validate(ctx, r) != nil {
					t.Fatal("refused")
				}
			}
		}))
	}
	if least > 0 {
		t.Errorf("%v allocations", least)
	}
}

// TestEvictionHook: a webhook sees an eviction as what it is, and may change it.
func TestEvictionHook(t *testing.T) {
	w := newWorld(t)
	var seen admissionv1.AdmissionRequest
	s := serveHooks(t, map[string]answer{"/e": func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		seen = *r
		return setLabel("asked", "yes")(r)
	}})
	w.apply("mutatingwebhookconfigurations", &admissionregistrationv1.MutatingWebhookConfiguration{}, `{metadata: {name: evictions}, webhooks: [
		{name: e.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: `+s.clientConfig("/e")+`,
		 rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods/eviction]}]}]}`)
	ctx := context.Background()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := w.Create(ctx, client.Pods, pod); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Create(ctx, client.Pods, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}, "eviction"); err != nil {
		t.Fatal(err)
	}
	if seen.Kind.Kind != "Eviction" || seen.Kind.Group != "policy" || seen.SubResource != "eviction" || seen.Resource.Resource != "pods" {
		t.Errorf("asked about %v, %v %q", seen.Kind, seen.Resource, seen.SubResource)
	}
	var made policyv1.Eviction
	if err := json.Unmarshal(seen.Object.Raw, &made); err != nil || made.Name != "p" || made.Kind != "Eviction" || made.APIVersion != "policy/v1" {
		t.Errorf("the object is %s, %v", seen.Object.Raw, err)
	}
	if _, err := w.Get(ctx, client.Pods, "default", "p"); !apierrors.IsNotFound(err) {
		t.Errorf("the pod is still there: %v", err)
	}
}
