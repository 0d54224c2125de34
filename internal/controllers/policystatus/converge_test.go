package policystatus_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/openapi"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/policystatus"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

// document is the OpenAPI of the kinds that are built in and that the policies
// here are for: with all, each look would read thousands of schemas.
var document = sync.OnceValue(func() map[string]http.Handler {
	list := slices.DeleteFunc(all.Kinds(), func(k *kinds.Kind) bool {
		return !slices.Contains([]string{"Deployment", "Pod", "ConfigMap"}, k.Kind)
	})
	paths := map[string]http.Handler{}
	maps.Copy(paths, openapi.New("v1.37.0", func() []*kinds.Kind { return list }, func() uint64 { return 1 }).Paths())
	return paths
})

// policy is one for a resource, with an expression each.
func policy(name, group, version, resource string, expressions ...string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionregistrationv1.MatchResources{
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
			}}},
		}},
	}
	for _, e := range expressions {
		p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{Expression: e})
	}
	return p
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Server: apitest.Options{Paths: document()},
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{policystatus.New(o)}
		},
		Start: func(w *controllertest.World) {
			w.Create(policystatus.Policies, policy("good", "apps", "v1", "deployments",
				"object.spec.replicas < 100", "object.spec.template.spec.containers.all(c, c.image != '')", "object.metadata.name.startsWith('a')"))
			w.Create(policystatus.Policies, policy("wrong", "apps", "v1", "deployments", "object.spec.replicas > 1", "object.spec.replica > 1", "object.spec.replicas > '1'"))
			w.Create(policystatus.Policies, policy("anything", "*", "v1", "deployments", "object.whatever == 1"))
			w.Create(policystatus.Policies, policy("unknown", "example.com", "v1", "things", "object.whatever == 1"))
			w.Create(policystatus.Policies, policy("scale", "apps", "v1", "deployments/scale", "object.whatever == 1"))
			p := policy("variable", "", "v1", "pods", "variables.names.all(n, n.foo == 1)")
			p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "names", Expression: "object.spec.containers.map(c, c.name)"}}
			p.Spec.Validations[0].MessageExpression = "string(object.nothing)"
			w.Create(policystatus.Policies, p)
			p = policy("params", "", "v1", "pods", "params.data.max == '3'", "params.date.max == '3'")
			p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
			w.Create(policystatus.Policies, p)
		},
		Meanwhile: func(w *controllertest.World) {
			w.Edit(policystatus.Policies, "", "good", func(obj client.Object) {
				obj.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec.Validations[0].Expression = "object.spec.replicas < 99"
			})
		},
		End: func(w *controllertest.World) string { return w.Lines(policystatus.Policies, line) },
		Check: func(w *controllertest.World) error {
			for name, want := range map[string][]string{
				"good": nil, "anything": nil, "unknown": nil, "scale": nil,
				"wrong":    {"spec.validations[1].expression apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'", "spec.validations[2].expression apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_'"},
				"variable": {"spec.validations[0].expression /v1, Kind=Pod: ERROR: <input>:1:", "spec.validations[0].messageExpression /v1, Kind=Pod: ERROR: <input>:1:14: undefined field 'nothing'"},
				"params":   {"spec.validations[1].expression /v1, Kind=Pod: ERROR: <input>:1:7: undefined field 'date'"},
			} {
				p := w.Get(policystatus.Policies, "", name).(*admissionregistrationv1.ValidatingAdmissionPolicy)
				if p.Status.ObservedGeneration != p.Generation || p.Status.TypeChecking == nil || len(p.Status.TypeChecking.ExpressionWarnings) != len(want) {
					return fmt.Errorf("%s (generation %d) has %d warnings expected, and status %+v", name, p.Generation, len(want), p.Status)
				}
				for i, warning := range p.Status.TypeChecking.ExpressionWarnings {
					if got := warning.FieldRef + " " + warning.Warning; !strings.HasPrefix(got, want[i]) {
						return fmt.Errorf("%s: warning %q, want %q", name, got, want[i])
					}
				}
			}
			return nil
		},
		Runs: 20, // each compiles some hundred expressions
	})
}

func line(obj client.Object) string {
	p := obj.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	return fmt.Sprint(p.Name, " ", p.Status.ObservedGeneration, " ", p.Status.TypeChecking)
}
