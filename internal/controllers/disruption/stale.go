package disruption

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// StaleName is the name of the loop of NewStale.
const StaleName = "disruptionconditions"

// Stale is the loop that takes back the word that a pod is about to be
// disrupted, when the pod has stayed: whoever gave it was refused, or died
// before the deletion.
// https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
type Stale struct {
	*loop.Loop
	client  client.Interface
	written controllers.Written
	pods    client.View
}

// NewStale wires the loop; Run turns it.
func NewStale(opts controllers.Options) *Stale {
	s := &Stale{client: opts.Client, pods: opts.Client.View(client.Pods, client.ViewOptions{})}
	s.Loop = controllers.NewLoop(opts, StaleName, 0, s.reconcile)
	return s
}

// Run turns the loop until ctx ends.
func (s *Stale) Run(ctx context.Context) error {
	return controllers.Run(ctx, s.Loop, controllers.Input{View: s.pods, Changed: func(_, new client.Object) {
		if pod, ok := new.(*corev1.Pod); ok && told(pod) != nil {
			s.Look(controllers.KeyOf(pod))
		}
	}})
}

// told is the condition that a pod is about to be disrupted, as far as it may
// turn out wrong. What a kubelet says of a pod that it ends takes its time, and
// what is said of a pod that has ended stays.
func told(pod *corev1.Pod) *corev1.PodCondition {
	if pod.DeletionTimestamp != nil || controllers.Ended(pod) {
		return nil
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason != corev1.PodReasonTerminationByKubelet {
			return c
		}
	}
	return nil
}

func (s *Stale) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := s.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	pod := client.In[*corev1.Pod](s.pods, key.Namespace, key.Name)
	if pod == nil || told(pod) == nil {
		return loop.Done(), nil
	}
	if left := time.Until(told(pod).LastTransitionTime.Add(deletionTime)); left > 0 {
		return loop.DoneUntil(left + time.Millisecond), nil
	}
	pod = pod.DeepCopy()
	c := told(pod)
	c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.Now().Rfc3339Copy()
	got, err := s.client.Update(ctx, client.Pods, pod, "status")
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return s.written.Outcome(key, s.pods, got, err, "update", "the condition %s", corev1.DisruptionTarget)
}
