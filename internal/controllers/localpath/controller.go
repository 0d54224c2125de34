package localpath

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "localpath"

const (
	// asking indexes claims that ask us for a volume by their selected node and
	// by their class, after classMark.
	asking    = "localpath.asking"
	classMark = "class/"
	// onNode indexes volumes of ours by their node.
	onNode = "localpath.node"
)

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written

	claims, volumes, classes, nodes client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	view := func(res client.Resource) client.View { return opts.Client.View(res, client.ViewOptions{}) }
	c := &Controller{
		client: opts.Client, events: opts.Recorder(),
		claims: view(client.PersistentVolumeClaims), volumes: view(client.PersistentVolumes),
		classes: view(client.StorageClasses), nodes: view(client.Nodes),
	}
	c.claims.Index(asking, func(obj client.Object) []string {
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok && asks(claim) {
			return []string{claim.Annotations[volumes.SelectedNode], classMark + volumes.ClaimClass(claim)}
		}
		return nil
	})
	c.volumes.Index(onNode, func(obj client.Object) []string {
		if v, ok := obj.(*corev1.PersistentVolume); ok && localpath.Ours(v) {
			return []string{v.Labels[localpath.NodeLabel]}
		}
		return nil
	})
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

func asks(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[volumes.StorageProvisioner] == localpath.Provisioner && claim.Spec.VolumeName == "" && !volumes.Completed(claim)
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.claims, Changed: controllers.LookWhere(c.Loop, asks)},
		controllers.Input{View: c.volumes, Changed: c.volumeChanged},
		controllers.Input{View: c.classes, Changed: c.classChanged},
		controllers.Input{View: c.nodes, Changed: c.nodeChanged})
}

// volumeChanged looks at the volume, and at the claim of one that is gone.
func (c *Controller) volumeChanged(old, new client.Object) {
	v, ok := controllers.Present(old, new).(*corev1.PersistentVolume)
	if !ok || !localpath.Ours(v) {
		return
	}
	c.Look(loop.Key{Name: v.Name})
	if ref := v.Spec.ClaimRef; new == nil && ref != nil {
		c.Look(loop.Key{Namespace: ref.Namespace, Name: ref.Name})
	}
}

// classChanged looks at the claims of a class: they may have waited for it.
func (c *Controller) classChanged(_, new client.Object) {
	class, ok := new.(*storagev1.StorageClass)
	if !ok || class.Provisioner != localpath.Provisioner {
		return
	}
	for _, claim := range c.claims.ByIndex(asking, classMark+class.Name) {
		c.Look(controllers.KeyOf(claim))
	}
}

// nodeChanged looks at what has to do with a node that has come or gone, or
// says now where it keeps volumes.
func (c *Controller) nodeChanged(old, new client.Object) {
	name := controllers.Present(old, new).GetName()
	if old != nil && new != nil && old.GetAnnotations()[localpath.FolderAnnotation] == new.GetAnnotations()[localpath.FolderAnnotation] {
		return
	}
	for _, claim := range c.claims.ByIndex(asking, name) {
		c.Look(controllers.KeyOf(claim))
	}
	for _, v := range c.volumes.ByIndex(onNode, name) {
		c.Look(loop.Key{Name: v.GetName()})
	}
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	if key.Namespace == "" {
		return c.volume(ctx, key)
	}
	claim := client.In[*corev1.PersistentVolumeClaim](c.claims, key.Namespace, key.Name)
	if claim == nil || !asks(claim) {
		return loop.Done(), nil
	}
	class := client.In[*storagev1.StorageClass](c.classes, "", volumes.ClaimClass(claim))
	node := client.In[*corev1.Node](c.nodes, "", claim.Annotations[volumes.SelectedNode])
	made := client.In[*corev1.PersistentVolume](c.volumes, "", localpath.VolumeName(claim))
	next := planClaim(claim, class, node, made)
	if next.unselect { // the view may not show the node yet
		live, err := client.Get[*corev1.Node](ctx, c.client, client.Nodes, "", claim.Annotations[volumes.SelectedNode])
		if err != nil && !apierrors.IsNotFound(err) {
			return loop.Outcome{}, err
		}
		next = planClaim(claim, class, live, made)
	}
	if next.failed {
		c.events.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %s", volumes.ClaimClass(claim), next.why)
	}
	switch {
	case next.unselect:
		changed := claim.DeepCopy()
		delete(changed.Annotations, volumes.SelectedNode)
		got, err := c.client.Update(ctx, client.PersistentVolumeClaims, changed)
		return c.written.Outcome(key, c.claims, got, err, "release", "the claim from its node: %s", next.why)
	case next.volume != nil:
		return c.create(ctx, key, claim, next.volume)
	case next.why != "":
		return loop.WaitFor(next.on, "%s", next.why), nil
	}
	return loop.Done(), nil
}

func (c *Controller) create(ctx context.Context, key loop.Key, claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) (loop.Outcome, error) {
	got, err := c.client.Create(ctx, client.PersistentVolumes, v)
	if apierrors.IsAlreadyExists(err) {
		// The view will show it, and its event bring us back if it has gone.
		return loop.WaitFor("PersistentVolume "+v.Name, "it is there but not seen yet"), nil
	}
	if err != nil {
		if controllers.Refused(err) {
			c.events.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %v", v.Spec.StorageClassName, err)
		}
		return loop.Outcome{}, fmt.Errorf("create volume %s: %w", v.Name, err)
	}
	c.events.Event(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", v.Name)
	c.written.Note(key, c.volumes, got)
	return loop.Acted("created volume %s on node %s", v.Name, v.Labels[localpath.NodeLabel]), nil
}

func (c *Controller) volume(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	v := client.In[*corev1.PersistentVolume](c.volumes, "", key.Name)
	if v == nil || !localpath.Ours(v) {
		return loop.Done(), nil
	}
	node := v.Labels[localpath.NodeLabel]
	next := planVolume(v, c.nodes.Get("", node) != nil)
	if next == abandon {
		_, err := c.client.Get(ctx, client.Nodes, "", node)
		if err != nil && !apierrors.IsNotFound(err) {
			return loop.Outcome{}, err
		}
		next = planVolume(v, err == nil)
	}
	switch next {
	case deletes:
		// Only as it is: a person may want to keep it meanwhile.
		if err := controllers.DeleteSeen(ctx, c.client, client.PersistentVolumes, v); err != nil {
			return loop.Outcome{}, fmt.Errorf("delete the volume: %w", err)
		}
		return loop.Done(), nil // the view shows it soon, and a change is a look
	case abandon:
		changed := v.DeepCopy()
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == localpath.Finalizer })
		got, err := c.client.Update(ctx, client.PersistentVolumes, changed)
		if apierrors.IsNotFound(err) {
			return loop.Done(), nil
		}
		return c.written.Outcome(key, c.volumes, got, err, "release", "the volume from node %s, which is gone", node)
	}
	switch {
	case v.DeletionTimestamp != nil && localpath.InUse(v):
		return loop.WaitFor("PersistentVolume "+v.Name, "a claim still has it"), nil
	case v.DeletionTimestamp != nil && localpath.Made(v):
		return loop.WaitFor("Node "+node, "it is to remove the volume's folder"), nil
	}
	return loop.Done(), nil
}
