package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// A new node bears the taint, once, beside those that it came with; one that
// is changed is the node loop's.
func TestTaintNodesByCondition(t *testing.T) {
	notReady := corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"}
	mine := corev1.Taint{Key: "mine", Effect: "NoExecute"}
	given := notReady
	given.Value = "x"
	for name, tc := range map[string]struct {
		op           Operation
		have, wanted []corev1.Taint
	}{
		"new":       {Create, nil, []corev1.Taint{notReady}},
		"beside":    {Create, []corev1.Taint{mine}, []corev1.Taint{mine, notReady}},
		"has it":    {Create, []corev1.Taint{given, mine}, []corev1.Taint{given, mine}},
		"NoExecute": {Create, []corev1.Taint{{Key: notReady.Key, Effect: "NoExecute"}}, []corev1.Taint{{Key: notReady.Key, Effect: "NoExecute"}, notReady}},
		"changed":   {Update, nil, nil},
	} {
		node := &corev1.Node{ObjectMeta: named("", "n"), Spec: corev1.NodeSpec{Taints: tc.have}}
		mustAdmit(t, TaintNodesByCondition{}, request(tc.op, "nodes", node, nil))
		if diff := cmp.Diff(tc.wanted, node.Spec.Taints); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	mustAdmit(t, TaintNodesByCondition{}, request(Create, "pods", podOf("web"), nil))
}
