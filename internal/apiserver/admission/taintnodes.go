package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// TaintNodesByCondition keeps pods off a new node until the node loop has
// looked at its conditions: it then bears the taints that they ask for.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#taintnodesbycondition
type TaintNodesByCondition struct{ mutateOnly }

// Name implements Plugin.
func (TaintNodesByCondition) Name() string { return "TaintNodesByCondition" }

// Admit implements Plugin.
func (TaintNodesByCondition) Admit(_ context.Context, r *Request) error {
	node := objectAs[*corev1.Node](r, "", "nodes")
	if node == nil || r.Operation != Create {
		return nil
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].MatchTaint(&taint) {
			return nil
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, taint)
	return nil
}
