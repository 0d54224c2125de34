package dynamic_test

import (
	"context"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

func (w *world) policy(name, spec string) {
	w.t.Helper()
	w.apply("validatingadmissionpolicies", &admissionregistrationv1.ValidatingAdmissionPolicy{}, `{metadata: {name: `+name+`}, spec: {`+spec+`,
		matchConstraints: {resourceRules: [{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}}}`)
}

func (w *world) bind(name, spec string) {
	w.t.Helper()
	w.apply("validatingadmissionpolicybindings", &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, `{metadata: {name: `+name+`}, spec: {`+spec+`}}`)
}

func TestPolicies(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	if _, err := w.Create(ctx, client.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "limits"}, Data: map[string]string{"length": "3"}}); err != nil {
		t.Fatal(err)
	}
	w.policy("named", `variables: [{name: long, expression: "size(object.metadata.name)"}], paramKind: {apiVersion: v1, kind: ConfigMap},
		matchConditions: [{name: marked, expression: "has(object.metadata.labels) && object.metadata.labels['policy'] == 'named'"}],
		validations: [{expression: "variables.long <= int(params.data.length)", messageExpression: "'name of ' + string(variables.long)", reason: Forbidden}]`)
	w.policy("broken", `matchConditions: [{name: marked, expression: "has(object.metadata.labels) && object.metadata.labels['policy'] == 'broken'"}], validations: [{expression: "object.nothing == 1"}]`)
	w.policy("plain", `matchConditions: [{name: marked, expression: "has(object.metadata.labels) && object.metadata.labels['policy'] == 'plain'"}], validations: [{expression: "object.metadata.name != 'plain'"}]`)
	w.policy("unbound", `validations: [{expression: "false"}]`)
	w.bind("named", `policyName: named, validationActions: [Deny], paramRef: {name: limits, parameterNotFoundAction: Deny}`)
	w.bind("broken", `policyName: broken, validationActions: [Deny]`)
	w.bind("plain", `policyName: plain, validationActions: [Deny]`)
	for _, tc := range []struct{ name, policy, want string }{
		{"abc", "named", ""},
		{"abcd", "named", `configmaps "abcd" is forbidden: ValidatingAdmissionPolicy 'named' with binding 'named' denied request: name of 4`},
		{"x", "broken", `configmaps "x" is forbidden: ValidatingAdmissionPolicy 'broken' with binding 'broken' denied request: expression 'object.nothing == 1' resulted in error: no such key: nothing`},
		{"plain", "plain", `configmaps "plain" is forbidden: ValidatingAdmissionPolicy 'plain' with binding 'plain' denied request: failed expression: object.metadata.name != 'plain'`},
		{"other", "plain", ""},
	} {
		_, err := w.configMap(tc.name, map[string]string{"policy": tc.policy})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	if _, err := w.configMap("abcd", map[string]string{"policy": "named"}); !apierrors.IsForbidden(err) {
		t.Errorf("reason of the rule: %v", err)
	}
	if _, err := w.configMap("plain", map[string]string{"policy": "plain"}); !apierrors.IsInvalid(err) {
		t.Errorf("reason without one: %v", err)
	}
	if err := w.Delete(ctx, client.ConfigMaps, "default", "limits", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.configMap("ab", map[string]string{"policy": "named"}); err == nil {
		t.Error("allowed without the parameters that it must have")
	}
}

// TestBindingsNarrow: a binding's own resources and selectors count.
func TestBindingsNarrow(t *testing.T) {
	w := newWorld(t)
	w.policy("never", `validations: [{expression: "false", message: no}]`)
	w.bind("some", `policyName: never, validationActions: [Deny], matchResources: {objectSelector: {matchLabels: {a: b}}}`)
	w.bind("warned", `policyName: never, validationActions: [Warn]`)
	if _, err := w.configMap("x", nil); err != nil {
		t.Errorf("without the label: %v", err)
	}
	if _, err := w.configMap("y", map[string]string{"a": "b"}); err == nil {
		t.Error("allowed with the label")
	}
}
