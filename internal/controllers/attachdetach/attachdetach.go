// Package attachdetach is the loop that has volumes of CSI drivers attached to
// the nodes whose pods need them, and detached from those whose pods do not. A
// VolumeAttachment asks for it; the driver's attacher, which is somebody's
// client, does it and says so there; this loop says so on the Node, whose
// kubelet mounts by that.
//
//	pod -> claim -> volume, node ----> VolumeAttachment <---- attacher of the driver
//	                                         | attached
//	node.status.volumesInUse  <- kubelet     v
//	        |                  (mounts) <- node.status.volumesAttached
//	        v
//	not in use, not needed: withdrawn, then the VolumeAttachment is deleted
//
// What is attached and needed follows from these objects alone. Only how long
// nobody has needed a volume is remembered: after a restart a node that does not
// answer has its six minutes anew.
//
// Nodes without the annotation volumes.ControllerManaged are left to their
// kubelets, drivers whose CSIDriver says attachRequired: false to nobody.
//
// Use: New(options).Run(ctx). Keys are volumes, by name, and nodes, in the
// namespace "node", whose status may name a volume that nothing stands for.
//
// Concurrency: as package loop.
//
// See https://kubernetes.io/docs/concepts/storage/volumes/#csi and
// https://kubernetes-csi.github.io/docs/external-attacher.html.
package attachdetach

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "attachdetach"

// ofNodes is the namespace of keys that are nodes. Volumes have none.
const ofNodes = "node"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written

	claims, volumes, pods, nodes, attachments, drivers client.View

	mu sync.Mutex
	// unneeded is since when an attachment was seen to be needed by nobody, by
	// volume and node; guarded by mu.
	unneeded map[string]map[string]time.Time
	// told is what people were told last, by volume and node; guarded by mu.
	told map[string]map[string]string
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	all := client.ViewOptions{}
	c := &Controller{
		client: opts.Client, events: opts.Recorder(),
		claims: opts.Client.View(client.PersistentVolumeClaims, all), volumes: opts.Client.View(client.PersistentVolumes, all),
		pods: opts.Client.View(client.Pods, all), nodes: opts.Client.View(client.Nodes, all),
		attachments: opts.Client.View(client.VolumeAttachments, all), drivers: opts.Client.View(client.CSIDrivers, all),
		unneeded: map[string]map[string]time.Time{}, told: map[string]map[string]string{},
	}
	c.index()
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.volumes, Changed: c.volumeChanged},
		controllers.Input{View: c.claims, Changed: c.claimChanged},
		controllers.Input{View: c.pods, Changed: c.podChanged},
		controllers.Input{View: c.nodes, Changed: c.nodeChanged},
		controllers.Input{View: c.attachments, Changed: c.attachmentChanged},
		controllers.Input{View: c.drivers, Changed: c.driverChanged})
}

func (c *Controller) lookAt(volume string) {
	if volume != "" {
		c.Look(loop.Key{Name: volume})
	}
}

func (c *Controller) volumeChanged(old, new client.Object) {
	if v, ok := controllers.Present(old, new).(*corev1.PersistentVolume); ok && v.Spec.CSI != nil {
		c.lookAt(v.Name)
	}
}

func (c *Controller) claimChanged(old, new client.Object) {
	if claim, ok := controllers.Present(old, new).(*corev1.PersistentVolumeClaim); ok && (old == nil || new == nil || !sameBinding(old, new)) {
		c.lookAt(claim.Spec.VolumeName)
	}
}

func sameBinding(old, new client.Object) bool {
	a, b := old.(*corev1.PersistentVolumeClaim), new.(*corev1.PersistentVolumeClaim)
	return a.UID == b.UID && a.Spec.VolumeName == b.Spec.VolumeName && volumes.Completed(a) == volumes.Completed(b)
}

// podChanged looks at the volumes of a pod that has been given a node, has
// ended or is gone.
func (c *Controller) podChanged(old, new client.Object) {
	pod, _ := controllers.Present(old, new).(*corev1.Pod)
	if pod == nil || pod.Spec.NodeName == "" {
		return
	}
	if was, ok := old.(*corev1.Pod); ok && new != nil && was.UID == pod.UID && was.Spec.NodeName == pod.Spec.NodeName && controllers.Ended(was) == controllers.Ended(pod) {
		return
	}
	c.lookAtVolumesOf(pod)
	if was, ok := old.(*corev1.Pod); ok && was.UID != pod.UID {
		c.lookAtVolumesOf(was)
	}
}

func (c *Controller) lookAtVolumesOf(pod *corev1.Pod) {
	for _, claim := range claimsOf(pod) {
		for _, v := range volumes.OfClaim(c.volumes, pod.Namespace, claim) {
			if v.Spec.CSI != nil {
				c.lookAt(v.Name)
			}
		}
	}
}

func (c *Controller) attachmentChanged(old, new client.Object) {
	for _, obj := range []client.Object{old, new} {
		if a, ok := obj.(*storagev1.VolumeAttachment); ok && a.Spec.Source.PersistentVolumeName != nil {
			c.lookAt(*a.Spec.Source.PersistentVolumeName)
		}
	}
	if a, ok := old.(*storagev1.VolumeAttachment); ok && new == nil {
		c.Look(loop.Key{Namespace: ofNodes, Name: a.Spec.NodeName})
	}
}

// nodeChanged looks at what is attached to a node, and what its pods need, when
// it says something else of them.
func (c *Controller) nodeChanged(old, new client.Object) {
	was, _ := old.(*corev1.Node)
	now, _ := new.(*corev1.Node)
	name := controllers.Present(old, new).GetName()
	come := was == nil || now == nil || was.UID != now.UID || managed(was) != managed(now)
	if !come && slices.Equal(was.Status.VolumesInUse, now.Status.VolumesInUse) && slices.Equal(was.Status.VolumesAttached, now.Status.VolumesAttached) &&
		controllers.NodeReady(was) == controllers.NodeReady(now) && outOfService(was) == outOfService(now) {
		return
	}
	if now != nil && len(now.Status.VolumesAttached) > 0 {
		c.Look(loop.Key{Namespace: ofNodes, Name: name})
	}
	for _, a := range client.Indexed[*storagev1.VolumeAttachment](c.attachments, byNode, name) {
		if a.Spec.Source.PersistentVolumeName != nil {
			c.lookAt(*a.Spec.Source.PersistentVolumeName)
		}
	}
	if come {
		for _, pod := range client.Indexed[*corev1.Pod](c.pods, byNode, name) {
			c.lookAtVolumesOf(pod)
		}
	}
}

func managed(n *corev1.Node) bool { return n.Annotations[volumes.ControllerManaged] == "true" }

// driverChanged looks at the volumes of a driver that asks for attaching now, or
// does so no more.
func (c *Controller) driverChanged(old, new client.Object) {
	was, _ := old.(*storagev1.CSIDriver)
	now, _ := new.(*storagev1.CSIDriver)
	if volumes.AttachRequired(was) == volumes.AttachRequired(now) {
		return
	}
	for _, v := range c.volumes.ByIndex(byDriver, controllers.Present(old, new).GetName()) {
		c.lookAt(v.GetName())
	}
}

// note keeps since when nobody needs what is attached.
func (c *Controller) note(volume string, places []*place, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.unneeded[volume]
	since := map[string]time.Time{}
	for _, p := range places {
		if len(p.pods) > 0 || p.attachment == nil {
			continue
		}
		from, ok := was[p.node]
		if !ok {
			from = now
		}
		since[p.node], p.unneeded = from, now.Sub(from)
	}
	if len(since) == 0 {
		delete(c.unneeded, volume)
	} else {
		c.unneeded[volume] = since
	}
}
