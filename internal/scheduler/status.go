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

// How many conditions are written at the same time at most. Fewer than
// bindings: they are in no hurry.
const statusWrites = 16

// statusWriter writes PodScheduled=False conditions: for each pod one at a
// time, the last one wanted. It is owned by the scheduler's goroutine.
type statusWriter struct {
	client   client.Interface
	inbox    *inbox
	writing  map[types.NamespacedName]string // in flight: what is said
	wanted   map[types.NamespacedName]statusWrite
	waiting  []types.NamespacedName // for a free slot; keys of wanted
	inFlight int
}

type statusWrite struct {
	pod       *corev1.Pod
	condition corev1.PodCondition
	nominated string
}

func newStatusWriter(c client.Interface, in *inbox) *statusWriter {
	return &statusWriter{client: c, inbox: in,
		writing: map[types.NamespacedName]string{}, wanted: map[types.NamespacedName]statusWrite{}}
}

// unschedulable sees to it that the pod's status says message, and for which
// node it is nominated. It reports whether the message is news.
func (w *statusWriter) unschedulable(ctx context.Context, pod *corev1.Pod, nominated, message string, now time.Time) bool {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	c := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: message, ObservedGeneration: pod.Generation,
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy()}
	told := false
	for _, had := range pod.Status.Conditions {
		if had.Type != c.Type {
			continue
		}
		if had.Status == c.Status {
			c.LastTransitionTime = had.LastTransitionTime
			told = had.Reason == c.Reason && had.Message == c.Message
		}
	}
	if told && pod.Status.NominatedNodeName == nominated {
		return false
	}
	write := statusWrite{pod: pod, condition: c, nominated: nominated}
	if w.writing[key] == write.said() || w.wanted[key].said() == write.said() {
		return false
	}
	_, had := w.wanted[key]
	w.wanted[key] = write
	if !had {
		w.waiting = append(w.waiting, key)
	}
	w.start(ctx)
	return !told
}

func (s statusWrite) said() string { return s.nominated + " " + s.condition.Message }

// forget drops what was wanted for a pod that is placed or gone.
func (w *statusWriter) forget(key types.NamespacedName) { delete(w.wanted, key) }

func (w *statusWriter) start(ctx context.Context) {
	var later []types.NamespacedName
	for len(w.waiting) > 0 && w.inFlight < statusWrites {
		key := w.waiting[0]
		w.waiting = w.waiting[1:]
		write, ok := w.wanted[key]
		if !ok {
			continue // forgotten
		}
		if _, busy := w.writing[key]; busy {
			later = append(later, key)
			continue
		}
		delete(w.wanted, key)
		w.writing[key] = write.said()
		w.inFlight++
		w.inbox.writes.Go(func() { w.inbox.wrote(key, w.write(ctx, write)) })
	}
	w.waiting = append(later, w.waiting...)
}

// done takes a result, starts what waits, and returns an error if the pod's
// status must be looked at again.
func (w *statusWriter) done(ctx context.Context, r statusResult) error {
	w.inFlight--
	delete(w.writing, r.key)
	w.start(ctx)
	if r.err == nil || apierrors.IsNotFound(r.err) || ctx.Err() != nil {
		return nil
	}
	return r.err
}

// write patches the condition, if the pod is still as it was when it was
// refused: a late write must not say of a pod that somebody has placed since
// that it cannot be.
func (w *statusWriter) write(ctx context.Context, s statusWrite) error {
	status := map[string]any{"conditions": []corev1.PodCondition{s.condition}}
	if s.nominated != s.pod.Status.NominatedNodeName {
		status["nominatedNodeName"] = s.nominated
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.pod.UID, "resourceVersion": s.pod.ResourceVersion},
		"status":   status,
	})
	if err != nil {
		return err
	}
	_, err = w.client.Patch(ctx, client.Pods, s.pod.Namespace, s.pod.Name, types.StrategicMergePatchType, patch, "status")
	return err
}
