package disruption_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/disruption"
)

// Pods that stay are told to, two minutes after they were told the opposite;
// those that end, and those that their kubelet ends, are not.
func TestStaleConditions(t *testing.T) {
	conditions := func(w *controllertest.World) string {
		return w.Lines(client.Pods, func(obj client.Object) string {
			line := obj.GetName() + ":"
			for _, c := range obj.(*corev1.Pod).Status.Conditions {
				if c.Type == corev1.DisruptionTarget {
					line += fmt.Sprintf(" %s %s", c.Status, c.Reason)
				}
			}
			return line
		})
	}
	pods := map[string]struct {
		reason string
		phase  corev1.PodPhase
	}{
		"evicted": {corev1.PodReasonPreemptionByScheduler, corev1.PodRunning}, "by-kubelet": {corev1.PodReasonTerminationByKubelet, corev1.PodRunning},
		"ended": {"EvictionByEvictionAPI", corev1.PodFailed}, "plain": {"", corev1.PodRunning},
	}
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{disruption.NewStale(o)}
		},
		End: conditions,
		Start: func(w *controllertest.World) {
			for name, p := range pods {
				w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
				w.Edit(client.Pods, "default", name, func(obj client.Object) {
					st := &obj.(*corev1.Pod).Status
					st.Phase = p.phase
					if p.reason != "" {
						st.Conditions = append(st.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: p.reason, LastTransitionTime: metav1.Now()})
					}
				}, "status")
			}
		},
		Meanwhile: func(w *controllertest.World) {
			time.Sleep(time.Minute)
			if w.Faulty {
				return
			}
			for _, obj := range w.List(client.Pods) { // too soon
				for _, c := range obj.(*corev1.Pod).Status.Conditions {
					if c.Type == corev1.DisruptionTarget && c.Status != corev1.ConditionTrue {
						w.TB.Errorf("after a minute %s is told to stay", obj.GetName())
					}
				}
			}
		},
		Check: func(w *controllertest.World) error {
			const want = "pods:\n  by-kubelet: True TerminationByKubelet\n  ended: True EvictionByEvictionAPI\n  evicted: False PreemptionByScheduler\n  plain:\n"
			if got := conditions(w); got != want {
				return fmt.Errorf("got %s, want %s", got, want)
			}
			return nil
		},
	})
}
