package dynamic_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/client"
)

// mutation makes a policy for new and changed objects of a resource
// ("apps/v1/deployments") and binds it.
func (w *world) mutation(name, resource, spec, binding string) {
	w.t.Helper()
	parts := strings.Split(resource, "/")
	w.apply("mutatingadmissionpolicies", &admissionregistrationv1.MutatingAdmissionPolicy{}, fmt.Sprintf(`{metadata: {name: %s}, spec: {
		matchConstraints: {resourceRules: [{operations: [CREATE, UPDATE], apiGroups: ["%s"], apiVersions: [%s], resources: [%s]}]}, %s}}`,
		name, parts[0], parts[1], parts[2], spec))
	w.apply("mutatingadmissionpolicybindings", &admissionregistrationv1.MutatingAdmissionPolicyBinding{},
		fmt.Sprintf(`{metadata: {name: %s}, spec: {policyName: %s, %s}}`, name, name, binding))
}

const configMaps = "/v1/configmaps"

// applied is one mutation by an apply configuration.
func applied(expression string) string {
	return `{patchType: ApplyConfiguration, applyConfiguration: {expression: '` + expression + `'}}`
}

func patched(expression string) string {
	return `{patchType: JSONPatch, jsonPatch: {expression: '` + expression + `'}}`
}

func TestMutations(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	if _, err := w.Create(ctx, client.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"team": "red"}}); err != nil {
		t.Fatal(err)
	}
	w.mutation("steps", configMaps, `reinvocationPolicy: Never, paramKind: {apiVersion: v1, kind: ConfigMap},
		variables: [{name: team, expression: "params.data.team + '-team'"}],
		matchConditions: [{name: marked, expression: "has(object.metadata.labels) && 'steps' in object.metadata.labels"}],
		mutations: [`+applied(`Object{metadata: Object.metadata{labels: {"team": variables.team}}, data: {"by": request.operation}}`)+`,
			`+patched(`[JSONPatch{op: "test", path: "/metadata/labels/team", value: "red-team"}, JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "c"}]`)+`,
			`+patched(`[JSONPatch{op: "test", path: "/metadata/labels/team", value: "blue"}, JSONPatch{op: "remove", path: "/metadata/labels"}]`)+`]`,
		`paramRef: {name: settings, parameterNotFoundAction: Deny}`)
	got, err := w.configMap("a", map[string]string{"steps": "yes"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"steps": "yes", "team": "red-team", "a/b": "c"}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"by": "CREATE"}, got.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if got, err := w.configMap("b", nil); err != nil || len(got.Labels)+len(got.Data) > 0 {
		t.Errorf("without the label: %+v, %v", got, err)
	}
	if err := w.Delete(ctx, client.ConfigMaps, "default", "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = w.configMap("c", map[string]string{"steps": "yes"})
	if err == nil || !strings.Contains(err.Error(), "policy 'steps' with binding 'steps' denied request: failed to configure binding: no params found") {
		t.Errorf("without the parameter: %v", err)
	}
}

// TestMutationsMerge: an apply configuration is merged by the rules of the kind.
func TestMutationsMerge(t *testing.T) {
	w := newWorld(t)
	w.mutation("sidecar", "apps/v1/deployments", `reinvocationPolicy: Never, mutations: [`+applied(`Object{spec: Object.spec{
		template: Object.spec.template{spec: Object.spec.template.spec{
			containers: [Object.spec.template.spec.containers{name: "mesh", image: "mesh:1"}, Object.spec.template.spec.containers{name: "app", env: [Object.spec.template.spec.containers.env{name: "MESH", value: "on"}]}]}}}}`)+`]`, ``)
	w.mutation("atomic", "apps/v1/deployments", `reinvocationPolicy: Never, matchConditions: [{name: named, expression: "object.metadata.name == 'atomic'"}],
		mutations: [`+applied(`Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"a": "b"}}}}`)+`]`, ``)
	deployment := func(name string) (*appsv1.Deployment, error) {
		d := &appsv1.Deployment{}
		if err := yaml.Unmarshal([]byte(`{metadata: {namespace: default, name: `+name+`}, spec: {selector: {matchLabels: {app: x}},
			template: {metadata: {labels: {app: x}}, spec: {containers: [{name: app, image: i, env: [{name: A, value: b}]}]}}}}`), d); err != nil {
			t.Fatal(err)
		}
		got, err := w.Create(context.Background(), client.Deployments, d)
		if err != nil {
			return nil, err
		}
		return got.(*appsv1.Deployment), nil
	}
	got, err := deployment("web")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, c := range got.Spec.Template.Spec.Containers {
		seen = append(seen, fmt.Sprint(c.Name, " ", c.Image, " ", c.ImagePullPolicy, " ", len(c.Env)))
	}
	if diff := cmp.Diff([]string{"mesh mesh:1 IfNotPresent 0", "app i Always 2"}, seen); diff != "" {
		t.Errorf("containers, defaults and all (-want +got):\n%s", diff)
	}
	_, err = deployment("atomic")
	if want := "policy 'atomic' with binding 'atomic' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if st := apierrors.APIStatus(nil); !asStatus(err, &st) || st.Status().Code != 403 || st.Status().Reason != metav1.StatusReasonInvalid {
		t.Errorf("got %#v, want 403 Invalid, as upstream", err)
	}
}

func asStatus(err error, st *apierrors.APIStatus) bool {
	s, ok := err.(apierrors.APIStatus)
	*st = s
	return ok
}

// TestMutationsFail: what cannot be evaluated refuses the request, unless the
// policy ignores it; what makes no object refuses it in any case.
func TestMutationsFail(t *testing.T) {
	w := newWorld(t)
	for _, policy := range []string{"Fail", "Ignore"} {
		name := strings.ToLower(policy)
		marked := `failurePolicy: ` + policy + `, reinvocationPolicy: Never, matchConditions: [{name: marked, expression: "object.metadata.name.startsWith('%s-` + name + `')"}], mutations: [%s]`
		w.mutation("absent-"+name, configMaps, fmt.Sprintf(marked, "absent", applied(`Object{metadata: Object.metadata{labels: {"a": object.nothing}}}`)), ``)
		w.mutation("unknown-"+name, configMaps, fmt.Sprintf(marked, "unknown", patched(`[JSONPatch{op: "add", path: "/dta", value: {"a": "b"}}]`)), ``)
		w.mutation("names-"+name, configMaps, fmt.Sprintf(marked, "names", applied(`Object{metadata: Object.spec{labels: {"a": "b"}}}`)), ``)
	}
	for name, want := range map[string]string{
		"absent-fail":    "policy 'absent-fail' with binding 'absent-fail' denied request: expression ",
		"absent-ignore":  "",
		"unknown-fail":   `strict decoding error: unknown field "dta"`,
		"unknown-ignore": `strict decoding error: unknown field "dta"`,
		"names-fail":     `type mismatch: unexpected type name "Object.spec", expected "Object.metadata"`,
		"names-ignore":   "",
	} {
		_, err := w.configMap(name+"-x", nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

// TestReinvocation follows how often each one is asked: policies and webhooks
// write their letter into a label.
func TestReinvocation(t *testing.T) {
	w := newWorld(t)
	s := serveHooks(t, map[string]answer{"/w": setLabel("hook", "w"), "/n": allow})
	letter := func(name, policy, only string) {
		w.mutation(name, configMaps, `reinvocationPolicy: `+policy+`, matchConditions: [{name: when, expression: "has(object.data) && 'x' in object.data && (`+only+`)"}],
			mutations: [`+applied(`Object{data: {"x": object.data.x + "`+name+`"}}`)+`]`, ``)
	}
	letter("a", "IfNeeded", "true")
	letter("b", "Never", "true")
	letter("c", "IfNeeded", "object.data.x == '-ab'") // only once, so that it ends
	w.apply("mutatingwebhookconfigurations", &admissionregistrationv1.MutatingWebhookConfiguration{}, `{metadata: {name: hooks}, webhooks: [
		{name: n.example.com, reinvocationPolicy: IfNeeded, sideEffects: None, admissionReviewVersions: [v1], clientConfig: `+s.clientConfig("/n")+`,
		 rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}], objectSelector: {matchLabels: {hooks: "yes"}}},
		{name: w.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: `+s.clientConfig("/w")+`,
		 rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}], objectSelector: {matchLabels: {hooks: "yes"}}}]}`)
	for _, tc := range []struct {
		name, x string // the data that policies are for, "" for none
		hooks   bool
		want    string // data, how often the first plugin was asked, webhooks
	}{
		{"nothing", "", false, ` t `},
		{"webhooks", "", true, ` tt /n CREATE webhooks, /w CREATE webhooks, /n CREATE webhooks`},
		// a, b, c change it: a and c are due, c's condition is met no more.
		{"policies", "-", false, `-abca tt `},
		{"both", "-", true, `-abca tt /n CREATE both, /w CREATE both, /n CREATE both`},
	} {
		labels := map[string]string{"tidy": "x"}
		if tc.hooks {
			labels["hooks"] = "yes"
		}
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: tc.name, Labels: labels}}
		if tc.x != "" {
			cm.Data = map[string]string{"x": tc.x}
		}
		obj, err := w.Create(context.Background(), client.ConfigMaps, cm)
		if err != nil {
			t.Fatal(err)
		}
		got := obj.(*corev1.ConfigMap)
		if s := got.Data["x"] + " " + strings.TrimPrefix(got.Labels["tidy"], "x") + " " + s.take(); s != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, s, tc.want)
		}
	}
}
