package controllers_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// TestLookWhere: what stops being of interest is looked at once more, so that
// no gap is left of it.
func TestLookWhere(t *testing.T) {
	pod := func(phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Status: corev1.PodStatus{Phase: phase}}
	}
	pending := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodPending }
	for name, test := range map[string]struct {
		old, new client.Object
		want     int
	}{
		"comes":      {nil, pod(corev1.PodPending), 1},
		"stays":      {pod(corev1.PodPending), pod(corev1.PodPending), 1},
		"is no more": {pod(corev1.PodPending), pod(corev1.PodRunning), 1},
		"goes":       {pod(corev1.PodPending), nil, 1},
		"never was":  {pod(corev1.PodRunning), pod(corev1.PodRunning), 0},
		"other kind": {nil, &corev1.Node{}, 0},
	} {
		l := loop.New(loop.Options{Name: "test", Reconcile: func(context.Context, loop.Key) (loop.Outcome, error) { return loop.Done(), nil }})
		controllers.LookWhere(l, pending)(test.old, test.new)
		if got := l.Len(); got != test.want {
			t.Errorf("%s: %d looks, want %d", name, got, test.want)
		}
		l.Stop()
	}
}
