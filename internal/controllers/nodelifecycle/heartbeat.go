package nodelifecycle

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// heartbeats remembers when each node was last heard of, by our clock: clocks
// of nodes may differ, so what counts is that a time changed, not which.
type heartbeats struct {
	mu   sync.Mutex
	last map[string]heartbeat // by node; guarded by mu
	// tainted is when a NoExecute taint that has no time of its own was first
	// seen; guarded by mu.
	tainted map[string]map[string]time.Time
}

type heartbeat struct {
	renewed metav1.MicroTime // by the lease
	posted  metav1.Time      // by the Ready condition
	at      time.Time        // when one of them was seen to change
	never   bool             // no Ready condition of the kubelet's so far
}

// note takes in the present state of a node and its lease, either of which may
// be nil, and returns when the node was last heard of and when it is due next.
func (h *heartbeats) note(name string, node *corev1.Node, lease *coordinationv1.Lease, now time.Time) (at, due time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	had, known := h.last[name]
	next := had
	if lease != nil && lease.Spec.RenewTime != nil {
		// On the wire times are in microseconds, in the memory of who wrote
		// them they may be finer: an object read again is no heartbeat.
		next.renewed = metav1.NewMicroTime(lease.Spec.RenewTime.Truncate(time.Microsecond))
	}
	if node != nil {
		i := conditionIndex(node, corev1.NodeReady)
		if next.never = i < 0 || node.Status.Conditions[i].Reason == neverUpdated; !next.never {
			next.posted = metav1.NewTime(node.Status.Conditions[i].LastHeartbeatTime.Truncate(time.Second))
		}
	}
	switch {
	case !known && next.never:
		next.at = node.CreationTimestamp.Time
	case !known || !had.renewed.Equal(&next.renewed) || !had.posted.Equal(&next.posted):
		next.at = now
	}
	if h.last == nil {
		h.last = map[string]heartbeat{}
	}
	h.last[name] = next
	if next.never {
		return next.at, next.at.Add(startupGracePeriod)
	}
	return next.at, next.at.Add(gracePeriod)
}

func (h *heartbeats) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.last, name)
	delete(h.tainted, name)
}

// taintedAt is when a node got a taint.
func (h *heartbeats) taintedAt(node string, t corev1.Taint, now time.Time) time.Time {
	if t.TimeAdded != nil {
		return t.TimeAdded.Time
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.tainted[node][t.Key]; ok {
		return at
	}
	if h.tainted == nil {
		h.tainted = map[string]map[string]time.Time{}
	}
	if h.tainted[node] == nil {
		h.tainted[node] = map[string]time.Time{}
	}
	h.tainted[node][t.Key] = now
	return now
}

// untaint forgets the taints that a node no longer has.
func (h *heartbeats) untaint(node *corev1.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.tainted[node.Name] {
		if !has(node.Spec.Taints, key, corev1.TaintEffectNoExecute) {
			delete(h.tainted[node.Name], key)
		}
	}
}
