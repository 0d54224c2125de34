package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// bind writes the binding. The uid keeps it from another pod of that name. An
// error means that the pod is not bound to the node: its place may be given to
// another. So when the answer is lost, bind asks until it knows.
func (s *Scheduler) bind(ctx context.Context, p *podInfo, node string) error {
	if p.binder != nil {
		if err := p.binder.bindBy(ctx, p.pod, node); err == nil || !p.binder.Ignorable {
			return err
		}
	}
	pod := p.pod
	_, err := s.opts.Client.Create(ctx, client.Pods, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, "binding")
	if err == nil || controllers.Answered(err) {
		return err
	}
	for wait := firstBackoff; ; wait = min(2*wait, maxBackoff) {
		live, asked := client.Get[*corev1.Pod](ctx, s.opts.Client, client.Pods, pod.Namespace, pod.Name)
		switch {
		case apierrors.IsNotFound(asked):
			return asked
		case asked == nil && live.UID != pod.UID:
			return apierrors.NewConflict(client.Pods.GroupResource(), pod.Name, fmt.Errorf("another pod has the name now"))
		case asked == nil && live.Spec.NodeName == node:
			return nil
		case asked == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}
