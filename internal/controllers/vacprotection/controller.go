// Package vacprotection is the loop that keeps classes of volume attributes as
// long as a claim or a volume names them: every class has a finalizer, which
// goes when the class is being deleted and nothing names it any more.
//
// Use: New(options).Run(ctx).
//
// Concurrency: as package loop.
//
// Failure: before a class is let go, the views of claims and volumes must show
// the revision at which it began to go. What names it later does not find it.
//
// See https://kubernetes.io/docs/concepts/storage/volume-attributes-classes/.
package vacprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "vacprotection"

// byClass indexes claims and volumes by the classes of attributes they name.
const byClass = "vacprotection.class"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client                   client.Interface
	written                  controllers.Written
	classes, claims, volumes client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	view := func(res client.Resource) client.View { return opts.Client.View(res, client.ViewOptions{}) }
	c := &Controller{client: opts.Client, classes: view(client.VolumeAttributesClasses), claims: view(client.PersistentVolumeClaims), volumes: view(client.PersistentVolumes)}
	c.claims.Index(byClass, named)
	c.volumes.Index(byClass, named)
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// named are the classes that a claim or a volume names: the one it has, the one
// it asks for and the one it is being changed to.
func named(obj client.Object) []string {
	var names []string
	add := func(name *string) {
		if name != nil && *name != "" && !slices.Contains(names, *name) {
			names = append(names, *name)
		}
	}
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		add(o.Spec.VolumeAttributesClassName)
	case *corev1.PersistentVolumeClaim:
		add(o.Spec.VolumeAttributesClassName)
		add(o.Status.CurrentVolumeAttributesClassName)
		if s := o.Status.ModifyVolumeStatus; s != nil {
			add(&s.TargetVolumeAttributesClassName)
		}
	}
	return names
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	// What named a class and does not now may have been the last.
	let := func(old, new client.Object) {
		if old == nil {
			return
		}
		var now []string
		if new != nil {
			now = named(new)
		}
		for _, name := range named(old) {
			if !slices.Contains(now, name) {
				c.Look(loop.Key{Name: name})
			}
		}
	}
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.classes, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.claims, Changed: let},
		controllers.Input{View: c.volumes, Changed: let})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	class := client.In[*storagev1.VolumeAttributesClass](c.classes, "", key.Name)
	if class == nil || !volumes.Unsettled(class, volumes.AttributesProtection) {
		return loop.Done(), nil
	}
	if class.DeletionTimestamp != nil {
		for _, v := range []client.View{c.claims, c.volumes} {
			if err := v.WaitFor(ctx, class.ResourceVersion); err != nil {
				return loop.Outcome{}, err
			}
		}
		if on := c.user(key.Name); on != "" {
			return loop.WaitFor(on, "the class is being deleted, and it names it"), nil
		}
	}
	changed, verb := volumes.Settle(class, volumes.AttributesProtection)
	got, err := c.client.Update(ctx, client.VolumeAttributesClasses, changed)
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.classes, got, err, verb, "the class")
}

// user is one that names a class, the first by name; "" when none does.
func (c *Controller) user(class string) string {
	first := ""
	for _, obj := range c.claims.ByIndex(byClass, class) {
		if text := "PersistentVolumeClaim " + controllers.KeyOf(obj).String(); first == "" || text < first {
			first = text
		}
	}
	if first != "" {
		return first
	}
	for _, obj := range c.volumes.ByIndex(byClass, class) {
		if text := "PersistentVolume " + obj.GetName(); first == "" || text < first {
			first = text
		}
	}
	return first
}
