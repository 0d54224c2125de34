package nodelifecycle

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An object that went over the wire has coarser times than the one that its
// writer held in memory. Both are the same heartbeat: taking the second for a
// new one gave a silent node up half a minute late.
func TestHeartbeatPrecision(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 678912345, time.UTC)
	objects := func(lease, post time.Duration) (*corev1.Node, *coordinationv1.Lease) {
		renewed := metav1.NewMicroTime(start.Truncate(lease))
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(start.Truncate(post))}}}},
			&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	var h heartbeats
	node, lease := objects(time.Nanosecond, time.Nanosecond)
	first, _ := h.note("n", node, lease, start)
	node, lease = objects(time.Microsecond, time.Second)
	if again, _ := h.note("n", node, lease, start.Add(30*time.Second)); !again.Equal(first) {
		t.Errorf("the same heartbeat read again counts as one at %s, want %s", again, first)
	}
}
