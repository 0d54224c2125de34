// Package pvcprotection is the loop that keeps claims as long as pods use
// them: every claim has a finalizer, which goes when the claim is being deleted
// and no pod that has a node names it any more, ended ones included.
//
// Use: New(options).Run(ctx).
//
// Concurrency: as package loop.
//
// Failure: before a claim is let go, the view of pods must show the revision
// at which the claim began to go; pods that are placed later are stopped by the
// scheduler and the kubelet, which start nothing on such a claim.
//
// See https://kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection.
package pvcprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "pvcprotection"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client       client.Interface
	written      controllers.Written
	claims, pods client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client: opts.Client,
		claims: opts.Client.View(client.PersistentVolumeClaims, client.ViewOptions{}),
		pods:   opts.Client.View(client.Pods, client.ViewOptions{}),
	}
	volumes.IndexPodsByClaim(c.pods)
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.claims, Changed: controllers.LookWhere(c.Loop, unsettled)},
		controllers.Input{View: c.pods, Changed: c.podChanged})
}

// unsettled tells whether something may have to be written for a claim.
func unsettled(claim *corev1.PersistentVolumeClaim) bool {
	return volumes.Unsettled(claim, volumes.ClaimProtection)
}

// podChanged looks at the claims of a pod that is gone, which they may have
// waited for.
func (c *Controller) podChanged(old, new client.Object) {
	pod, ok := old.(*corev1.Pod)
	if !ok || new != nil && new.GetUID() == old.GetUID() {
		return
	}
	for i := range pod.Spec.Volumes {
		if name := volumes.ClaimOf(pod, &pod.Spec.Volumes[i]); name != "" {
			c.Look(loop.Key{Namespace: pod.Namespace, Name: name})
		}
	}
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	claim := client.In[*corev1.PersistentVolumeClaim](c.claims, key.Namespace, key.Name)
	if claim == nil || !unsettled(claim) {
		return loop.Done(), nil
	}
	if claim.DeletionTimestamp != nil {
		if err := c.pods.WaitFor(ctx, claim.ResourceVersion); err != nil {
			return loop.Outcome{}, err
		}
		if pod := user(claim, volumes.PodsOf(c.pods, key.Namespace, key.Name)); pod != nil {
			return loop.WaitFor("Pod "+pod.Namespace+"/"+pod.Name, "the claim is being deleted, and the pod uses it"), nil
		}
	}
	changed, verb := volumes.Settle(claim, volumes.ClaimProtection)
	got, err := c.client.Update(ctx, client.PersistentVolumeClaims, changed)
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.claims, got, err, verb, "the claim")
}

// user is a pod that uses a claim, the first by name; nil: none does.
func user(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) *corev1.Pod {
	var first *corev1.Pod
	for _, pod := range pods {
		if uses(pod, claim) && (first == nil || pod.Name < first.Name) {
			first = pod
		}
	}
	return first
}

// uses: a pod without a node has nothing yet, and gets none with this claim.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if volumes.ClaimOf(pod, v) == claim.Name && (v.Ephemeral == nil || volumes.Owned(claim, pod)) {
			return true
		}
	}
	return false
}
