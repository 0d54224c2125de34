package scheduler

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

// makeRoom nominates p for a node and makes the victims leave. What it writes
// is only what it saw: should a victim stay, p is refused again and another
// look is taken.
func (s *Scheduler) makeRoom(ctx context.Context, p *podInfo, e *eviction) {
	for _, q := range s.cluster.nominated.below(p, e.node.name) {
		// It may find room elsewhere, or make it.
		s.cluster.nominated.forget(q.key)
		s.dirty[e.node.name] = true
	}
	s.cluster.nominated.set(p, e.node.name)
	for _, victim := range e.victims {
		if victim.leaving {
			continue
		}
		s.inbox.writes.Go(func() {
			if err := s.evict(ctx, p, victim, e.node.name); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				s.opts.Logger.Info("a pod that is to make room stays", "pod", victim.key.String(), "for", p.key.String(), "error", err)
				s.inbox.pod(p.key)
				s.inbox.call(func() { s.again(p.key) })
			}
		})
	}
}

// again lets a pod be tried once more after a back-off.
func (s *Scheduler) again(key types.NamespacedName) {
	if p := s.queue.remove(key); p != nil {
		s.queue.retry(p, time.Now())
	}
}

// evict tells by a condition that a pod did not fail by itself, and deletes it.
func (s *Scheduler) evict(ctx context.Context, by, victim *podInfo, node string) error {
	message := by.profile.SchedulerName + ": preempting to accommodate a higher priority pod"
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": victim.uid},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
			Message: message, ObservedGeneration: victim.generation, LastTransitionTime: metav1.Now().Rfc3339Copy()}}},
	})
	if err != nil {
		return err
	}
	got, err := s.opts.Client.Patch(ctx, client.Pods, victim.key.Namespace, victim.key.Name, types.StrategicMergePatchType, patch, "status")
	if err != nil {
		return err
	}
	if err := s.opts.Client.Delete(ctx, client.Pods, victim.key.Namespace, victim.key.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.uid))}); err != nil {
		return err
	}
	by.profile.recorder.Event(got, corev1.EventTypeNormal, "Preempted", "Preempted by pod %s on node %s", by.uid, node)
	return nil
}
