// Package ephemeralvolume is the loop that makes the claims of pods' own
// volumes (spec.volumes[*].ephemeral): from the template in the pod, owned by
// the pod, so that they go with it.
//
// Use: New(options).Run(ctx). Keys are pods.
//
// Concurrency: as package loop. The name of a claim follows from pod and
// volume, so that nobody makes it twice.
//
// Failure: a claim of that name that is somebody else's is left alone; the pod
// waits, with an event.
//
// See https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes.
package ephemeralvolume

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "ephemeralvolume"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client       client.Interface
	events       client.Recorder
	written      controllers.Written
	claims, pods client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client: opts.Client, events: opts.Recorder(),
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
		controllers.Input{View: c.pods, Changed: func(old, new client.Object) {
			pod, ok := controllers.Present(old, new).(*corev1.Pod)
			if !ok || !has(pod) {
				return
			}
			if key := controllers.KeyOf(pod); old == nil || new == nil || old.GetUID() != new.GetUID() || c.Open(key) {
				c.Look(key)
			}
		}},
		// A claim that is gone is made again, by whoever needs it.
		controllers.Input{View: c.claims, Changed: func(old, new client.Object) {
			if new != nil && old != nil && new.GetUID() == old.GetUID() {
				return
			}
			obj := controllers.Present(old, new)
			for _, pod := range volumes.PodsOf(c.pods, obj.GetNamespace(), obj.GetName()) {
				if has(pod) {
					c.Look(controllers.KeyOf(pod))
				}
			}
		}})
}

// has tells whether a pod has volumes of its own.
func has(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	pod := client.In[*corev1.Pod](c.pods, key.Namespace, key.Name)
	if pod == nil || pod.DeletionTimestamp != nil || controllers.Ended(pod) {
		return loop.Done(), nil
	}
	out := loop.Done()
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		name := volumes.EphemeralClaim(pod.Name, v.Name)
		there := client.In[*corev1.PersistentVolumeClaim](c.claims, key.Namespace, name)
		switch {
		case there == nil:
			return c.create(ctx, key, pod, v, name)
		case !volumes.Owned(there, pod):
			// The others are made all the same.
			c.events.Event(pod, corev1.EventTypeWarning, "FailedBinding", "ephemeral volume %s: PVC %q was not created for pod %q (pod is not owner)", v.Name, name, pod.Name)
			out = loop.WaitFor("PersistentVolumeClaim "+key.Namespace+"/"+name, "it has the name of the claim of volume %s, and is not the pod's", v.Name)
		}
	}
	return out, nil
}

func (c *Controller) create(ctx context.Context, key loop.Key, pod *corev1.Pod, v *corev1.Volume, name string) (loop.Outcome, error) {
	template := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}},
		Spec: template.Spec,
	}
	got, err := c.client.Create(ctx, client.PersistentVolumeClaims, claim)
	return c.written.Made(key, c.claims, "PersistentVolumeClaim", claim, got, err, func(err error) {
		c.events.Event(pod, corev1.EventTypeWarning, "FailedBinding", "ephemeral volume %s: %v", v.Name, err)
	})
}
