package controllertest

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

// Broken, as the image of a pod's first container, keeps the pod from ever
// becoming ready.
const Broken = "broken"

// Kubelets are Others that bring every pod to Ready, whether it has a node or
// not, and take it away when it is deleted.
func Kubelets(o controllers.Options) []controllers.Controller {
	k := &kubelets{client: o.Client, pods: o.Client.View(client.Pods, client.ViewOptions{})}
	k.Loop = controllers.NewLoop(o, "kubelets", 0, k.reconcile)
	return []controllers.Controller{k}
}

type kubelets struct {
	*loop.Loop
	client client.Interface
	pods   client.View
}

func (k *kubelets) Run(ctx context.Context) error {
	return controllers.Run(ctx, k.Loop, controllers.Input{View: k.pods, Changed: func(_, new client.Object) {
		if new != nil {
			k.LookAfter(controllers.KeyOf(new), time.Second)
		}
	}})
}

func (k *kubelets) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	pod := client.In[*corev1.Pod](k.pods, key.Namespace, key.Name)
	switch {
	case pod == nil:
		return loop.Done(), nil
	case pod.DeletionTimestamp != nil:
		zero := int64(0)
		err := k.client.Delete(ctx, client.Pods, key.Namespace, key.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return loop.Outcome{}, err
		}
		return loop.Done(), nil
	case pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodFailed || pod.Spec.Containers[0].Image == Broken:
		return loop.Done(), nil
	}
	now := metav1.Now()
	pod = pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &now
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
	_, err := k.client.Update(ctx, client.Pods, pod, "status")
	return loop.Done(), err
}
