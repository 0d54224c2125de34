package pod

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

const writeStatus = "write status"

// compute is the status the pod should have.
func (w *Worker) compute(plan Plan) v1.PodStatus {
	in := status.Input{
		Now: time.Now(), Pod: w.pod, State: w.state, Waiting: plan.Waiting, Messages: w.messages,
		Health: make(map[string]status.Health, len(w.health)), HostIPs: w.deps.HostIPs, Failed: w.failed, Ended: plan.Ended,
	}
	if w.ended != nil {
		// What was removed from the runtime since is told as it ended.
		in.State, in.Ended = w.ended, true
	}
	in.Actual, _ = w.resources()
	in.Resize = status.Resize{Pending: w.pending, Error: w.resizeError}
	for id, h := range w.health {
		in.Health[id] = h.health(w.starting).Health
	}
	return status.Compute(in)
}

// reported tells whether the API server has the pod's last status.
func (w *Worker) reported() bool {
	if w.ended == nil || w.busy[writeStatus] != nil {
		return false
	}
	s := w.compute(Plan{Ended: true})
	return status.Equal(&w.pod.Status, &s)
}

// report writes the status when it is not what the API server has. It is a
// step like others, so that a slow server does not hold up the containers.
func (w *Worker) report(plan Plan) {
	if w.gone || w.deleted || w.busy[writeStatus] != nil {
		return
	}
	if f := w.failures[writeStatus]; f != nil && time.Now().Before(f.until) {
		time.AfterFunc(time.Until(f.until), w.Wake)
		return
	}
	s := w.compute(plan)
	if status.Equal(&w.pod.Status, &s) {
		return
	}
	pod := w.pod.DeepCopy()
	pod.Status = s
	ctx, cancel := context.WithCancel(w.ctx)
	w.busy[writeStatus] = cancel
	go func() {
		o, err := w.deps.Client.Update(ctx, Resource, pod, "status")
		if apierrors.IsConflict(err) {
			// Somebody else wrote: from there.
			if now, getErr := w.deps.Client.Get(ctx, Resource, pod.Namespace, pod.Name); getErr == nil && now.GetUID() == pod.UID {
				o, err = now, nil
			}
		}
		cancel()
		w.results <- func() {
			delete(w.busy, writeStatus)
			switch {
			case err == nil:
				delete(w.failures, writeStatus)
				if p, ok := o.(*v1.Pod); ok {
					w.ahead = p
				}
			case apierrors.IsNotFound(err):
				// The view will say so too.
			default:
				if w.ctx.Err() == nil {
					w.deps.Log.Info("status not written", "key", pod.Namespace+"/"+pod.Name, "error", err)
				}
				w.fail(writeStatus, v1.ContainerStateWaiting{})
			}
		}
	}()
}
