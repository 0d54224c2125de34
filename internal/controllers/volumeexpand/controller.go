// Package volumeexpand is the loop that sees claims that ask for more room than
// their volume has. A folder of the built-in storage has the room of its disk
// whatever the claim says: it is given the greater size, which is all there is
// to do. Volumes of CSI drivers are for the driver's own resizer, which is
// told nothing but what the claim says; nobody makes others grow.
//
// Use: New(options).Run(ctx). Keys are claims.
//
// Concurrency: as package loop.
//
// See https://kubernetes.io/docs/concepts/storage/persistent-volumes/#expanding-persistent-volumes-claims.
package volumeexpand

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "volumeexpand"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client          client.Interface
	events          client.Recorder
	written         controllers.Written
	claims, volumes client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client: opts.Client, events: opts.Recorder(),
		claims:  opts.Client.View(client.PersistentVolumeClaims, client.ViewOptions{}),
		volumes: opts.Client.View(client.PersistentVolumes, client.ViewOptions{}),
	}
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.claims, Changed: controllers.LookWhere(c.Loop, wantsMore)},
		controllers.Input{View: c.volumes, Changed: func(_, new client.Object) {
			if v, ok := new.(*corev1.PersistentVolume); ok && v.Spec.ClaimRef != nil && localpath.Ours(v) {
				c.Look(loop.Key{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name})
			}
		}})
}

// wantsMore tells whether a bound claim asks for more than it says it has.
func wantsMore(claim *corev1.PersistentVolumeClaim) bool {
	have, want := room(claim), volumes.Requested(claim)
	return claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp == nil && want.Cmp(have) > 0
}

func room(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Status.Capacity[corev1.ResourceStorage]
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	claim := client.In[*corev1.PersistentVolumeClaim](c.claims, key.Namespace, key.Name)
	if claim == nil || !wantsMore(claim) {
		return loop.Done(), nil
	}
	v := client.In[*corev1.PersistentVolume](c.volumes, "", claim.Spec.VolumeName)
	on := "PersistentVolume " + claim.Spec.VolumeName
	switch {
	case !volumes.Bound(v, claim):
		return loop.WaitFor(on, "it is to be bound to the claim"), nil
	case localpath.Ours(v):
		return c.grow(ctx, key, claim, v)
	case v.Spec.CSI != nil:
		c.events.Event(claim, corev1.EventTypeNormal, "ExternalExpanding", "waiting for an external controller to expand this PVC")
		return loop.WaitFor("resizer of "+v.Spec.CSI.Driver, "it is to expand volume %s", v.Name), nil
	}
	c.events.Event(claim, corev1.EventTypeWarning, "ExternalExpanding", "Ignoring the PVC: didn't find a plugin capable of expanding the volume; waiting for an external controller to process this PVC.")
	return loop.WaitFor(on, "nobody knows how to make a volume of this type grow"), nil
}

// grow says of a folder that it has the room that its claim asks for: first
// the volume, then the claim.
func (c *Controller) grow(ctx context.Context, key loop.Key, claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) (loop.Outcome, error) {
	want, have := volumes.Requested(claim), volumes.Capacity(v)
	if have.Cmp(want) < 0 {
		larger := v.DeepCopy()
		larger.Spec.Capacity[corev1.ResourceStorage] = want
		got, err := c.client.Update(ctx, client.PersistentVolumes, larger)
		if apierrors.IsNotFound(err) {
			return loop.Done(), nil
		}
		return c.written.Outcome(key, c.volumes, got, err, "enlarge", "volume %s to %s", v.Name, want.String())
	}
	larger := claim.DeepCopy()
	if larger.Status.Capacity == nil {
		larger.Status.Capacity = corev1.ResourceList{}
	}
	larger.Status.Capacity[corev1.ResourceStorage] = have
	got, err := c.client.Update(ctx, client.PersistentVolumeClaims, larger, "status")
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	if err == nil {
		c.events.Event(claim, corev1.EventTypeNormal, "VolumeResizeSuccessful", "Resize volume succeeded")
	}
	return c.written.Outcome(key, c.claims, got, err, "enlarge", "the claim to %s", have.String())
}
