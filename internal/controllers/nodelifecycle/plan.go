package nodelifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How long a node may be silent, and how long one that never spoke.
const (
	gracePeriod        = 40 * time.Second
	startupGracePeriod = time.Minute
)

const neverUpdated = "NodeStatusNeverUpdated"

// The conditions that are no longer known when a node falls silent.
var kubeletConditions = []corev1.NodeConditionType{
	corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// planStatus returns the node with its conditions Unknown, as a node that has
// fallen silent is marked, or nil if it is marked already.
//
// https://kubernetes.io/docs/reference/node/node-status/#condition
func planStatus(node *corev1.Node, now time.Time) *corev1.Node {
	var next *corev1.Node
	at := metav1.NewTime(now).Rfc3339Copy()
	for _, t := range kubeletConditions {
		i := conditionIndex(node, t)
		if i >= 0 && node.Status.Conditions[i].Status == corev1.ConditionUnknown {
			continue
		}
		if next == nil {
			next = node.DeepCopy()
		}
		if i < 0 {
			next.Status.Conditions = append(next.Status.Conditions, corev1.NodeCondition{Type: t, Status: corev1.ConditionUnknown,
				Reason: neverUpdated, Message: "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: at})
			continue
		}
		c := &next.Status.Conditions[i]
		c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
		c.LastTransitionTime = at
	}
	return next
}

func conditionIndex(node *corev1.Node, t corev1.NodeConditionType) int {
	return slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == t })
}

// ready is the status of the Ready condition; "" when there is none yet.
func ready(node *corev1.Node) corev1.ConditionStatus {
	if i := conditionIndex(node, corev1.NodeReady); i >= 0 {
		return node.Status.Conditions[i].Status
	}
	return ""
}

// conditionTaints are the taints that mirror conditions.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-nodes-by-condition
var conditionTaints = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	key       string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
}

// evicts says what the plan may do about NoExecute taints.
type evicts int

const (
	evictNever evicts = iota // and take back what was done: nobody is left to move to
	evictLater               // it is not this node's turn yet
	evictNow
)

// taints returns the taints a node should have: those of others as they are,
// ours as its conditions say. A node that has not said yet whether it is ready
// keeps the NoExecute taints that it was made with: as upstream, only its word
// takes them away, or that it gave none in its time. The second result says
// that pods wait to be moved off until it is the node's turn.
func taints(node *corev1.Node, may evicts, now time.Time) (want []corev1.Taint, waits bool) {
	ours := map[corev1.Taint]bool{} // key and effect: wanted
	hadNoExecute := false
	for _, t := range conditionTaints {
		i := conditionIndex(node, t.condition)
		on := i >= 0 && node.Status.Conditions[i].Status == t.status
		ours[corev1.Taint{Key: t.key, Effect: corev1.TaintEffectNoSchedule}] = on
		if t.condition == corev1.NodeReady && ready(node) != "" {
			ours[corev1.Taint{Key: t.key, Effect: corev1.TaintEffectNoExecute}] = on
			hadNoExecute = hadNoExecute || has(node.Spec.Taints, t.key, corev1.TaintEffectNoExecute)
		}
	}
	ours[corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}] = node.Spec.Unschedulable
	if hadNoExecute && may == evictLater {
		may = evictNow // it had its turn; not-ready and unreachable may still change places
	}
	for _, t := range node.Spec.Taints {
		wanted, mine := ours[corev1.Taint{Key: t.Key, Effect: t.Effect}]
		if mine && (!wanted || t.Effect == corev1.TaintEffectNoExecute && may == evictNever) {
			continue
		}
		want = append(want, t)
	}
	at := metav1.NewTime(now).Rfc3339Copy()
	for t, wanted := range ours {
		if !wanted || has(want, t.Key, t.Effect) {
			continue
		}
		if t.Effect == corev1.TaintEffectNoExecute && may != evictNow {
			waits = true
			continue
		}
		t.TimeAdded = &at
		want = append(want, t)
	}
	slices.SortStableFunc(want, func(a, b corev1.Taint) int { return rank(node.Spec.Taints, a) - rank(node.Spec.Taints, b) })
	return want, waits
}

// rank keeps the order of the taints that were there, and gives new ones an
// order that does not change from run to run.
func rank(had []corev1.Taint, t corev1.Taint) int {
	for i := range had {
		if had[i].Key == t.Key && had[i].Effect == t.Effect {
			return i
		}
	}
	for i := range conditionTaints {
		if conditionTaints[i].key == t.Key {
			r := len(had) + 2*i
			if t.Effect == corev1.TaintEffectNoExecute {
				r++
			}
			return r
		}
	}
	return len(had) + 2*len(conditionTaints)
}

func has(list []corev1.Taint, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(list, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}

func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool {
		return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect
	})
}
