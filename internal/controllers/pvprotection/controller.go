// Package pvprotection is the loop that keeps volumes as long as they are
// bound: every volume has a finalizer, which goes when the volume is being
// deleted and no claim has it.
//
// Use: New(options).Run(ctx).
//
// Concurrency: as package loop.
//
// See https://kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection.
package pvprotection

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
const Name = "pvprotection"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	written controllers.Written
	volumes client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{client: opts.Client, volumes: opts.Client.View(client.PersistentVolumes, client.ViewOptions{})}
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.volumes, Changed: controllers.LookWhere(c.Loop, unsettled)})
}

// unsettled tells whether something may have to be written for a volume.
func unsettled(v *corev1.PersistentVolume) bool {
	return volumes.Unsettled(v, volumes.VolumeProtection)
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	v := client.In[*corev1.PersistentVolume](c.volumes, "", key.Name)
	if v == nil || !unsettled(v) {
		return loop.Done(), nil
	}
	if v.DeletionTimestamp != nil && v.Status.Phase == corev1.VolumeBound {
		on := "PersistentVolumeClaim"
		if ref := v.Spec.ClaimRef; ref != nil {
			on += " " + ref.Namespace + "/" + ref.Name
		}
		return loop.WaitFor(on, "the volume is being deleted, and bound"), nil
	}
	changed, verb := volumes.Settle(v, volumes.VolumeProtection)
	got, err := c.client.Update(ctx, client.PersistentVolumes, changed)
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.volumes, got, err, verb, "the volume")
}
