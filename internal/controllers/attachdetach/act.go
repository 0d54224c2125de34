package attachdetach

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	if key.Namespace == ofNodes {
		return c.tidy(ctx, key)
	}
	v := client.In[*corev1.PersistentVolume](c.volumes, "", key.Name)
	places := c.places(key.Name, v, time.Now())
	steps := plan(places, v != nil && volumes.Exclusive(v))
	c.tell(key.Name, v, steps)
	for _, s := range steps {
		if s.do != none {
			return c.take(ctx, key, v, s)
		}
	}
	out := loop.Done()
	for _, s := range steps {
		if s.on != "" && out.On == "" {
			out = loop.WaitFor(s.on, "%s", s.why)
		}
	}
	for _, s := range steps {
		if s.after > 0 && (out.After == 0 || s.after < out.After) {
			out.After = s.after
		}
	}
	return out, nil
}

// take takes a step.
func (c *Controller) take(ctx context.Context, key loop.Key, v *corev1.PersistentVolume, s step) (loop.Outcome, error) {
	switch s.do {
	case create:
		return c.create(ctx, key, v, s.at)
	case report:
		return c.report(ctx, key, v, s.at)
	case withdraw:
		return c.withdraw(ctx, key, s.at.seen, naming(s.at.node, v, s.at.attachment))
	}
	return c.remove(ctx, key, v, s.at)
}

func (c *Controller) create(ctx context.Context, key loop.Key, v *corev1.PersistentVolume, p *place) (loop.Outcome, error) {
	name := volumes.AttachmentName(v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle, p.node)
	got, err := c.client.Create(ctx, client.VolumeAttachments, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: v.Spec.CSI.Driver, NodeName: p.node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.Name}},
	})
	if apierrors.IsAlreadyExists(err) {
		// Made by another copy of this loop; or another volume has the same
		// handle, and what it has there serves for both of them.
		return loop.WaitFor("VolumeAttachment "+name, "it is there, for this volume or another of the same handle").In(time.Second), nil
	}
	return c.written.Outcome(key, c.attachments, got, err, "create", "attachment of volume %s to node %s", v.Name, p.node)
}

// report says on the Node that a volume is attached.
func (c *Controller) report(ctx context.Context, key loop.Key, v *corev1.PersistentVolume, p *place) (loop.Outcome, error) {
	n := p.seen.DeepCopy()
	n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: volumes.UniqueName(v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle)})
	got, err := c.client.Update(ctx, client.Nodes, n, "status")
	if err == nil {
		for _, pod := range p.pods {
			c.events.Event(pod, corev1.EventTypeNormal, "SuccessfulAttachVolume", "AttachVolume.Attach succeeded for volume %q ", v.Name)
		}
	}
	return c.written.Outcome(key, c.nodes, got, err, "report", "volume %s attached on node %s", v.Name, p.node)
}

// withdraw takes back that volumes are attached to a node. It fails when the
// kubelet has written meanwhile, who may have said that it uses one.
func (c *Controller) withdraw(ctx context.Context, key loop.Key, seen *corev1.Node, which func(corev1.UniqueVolumeName) bool) (loop.Outcome, error) {
	n := seen.DeepCopy()
	n.Status.VolumesAttached = slices.DeleteFunc(n.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return which(a.Name) })
	got, err := c.client.Update(ctx, client.Nodes, n, "status")
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.nodes, got, err, "withdraw", "what is not attached from node %s", n.Name)
}

// remove asks the attacher to detach, after a look at the live Node: a view may
// be older than what its kubelet has said.
func (c *Controller) remove(ctx context.Context, key loop.Key, v *corev1.PersistentVolume, p *place) (loop.Outcome, error) {
	live, err := client.Get[*corev1.Node](ctx, c.client, client.Nodes, "", p.node)
	if err != nil && !apierrors.IsNotFound(err) {
		return loop.Outcome{}, fmt.Errorf("look at node %s: %w", p.node, err)
	}
	if err == nil && (p.seen == nil || client.Later(live.ResourceVersion, p.seen.ResourceVersion)) {
		c.written.Note(key, c.nodes, live)
		return loop.Acted("looked at node %s itself", p.node), nil
	}
	if err := controllers.DeleteSame(ctx, c.client, client.VolumeAttachments, p.attachment); err != nil {
		return loop.Outcome{}, fmt.Errorf("delete attachment of volume %s to node %s: %w", key.Name, p.node, err)
	}
	// The view may show it for a while longer: then it is deleted once more.
	return loop.WaitFor(on(p.attachment), "its attacher is to detach the volume").In(time.Second), nil
}

// tidy takes back what a node's status says of volumes that no attachment stands
// for, such as one that somebody removed by force.
func (c *Controller) tidy(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	n := client.In[*corev1.Node](c.nodes, "", key.Name)
	if n == nil {
		return loop.Done(), nil
	}
	lost := map[corev1.UniqueVolumeName]bool{}
	for _, a := range n.Status.VolumesAttached {
		driver, handle, ok := volumes.OfCSI(a.Name)
		name := volumes.AttachmentName(driver, handle, n.Name)
		if !ok || c.attachments.Get("", name) != nil {
			continue
		}
		if _, err := c.client.Get(ctx, client.VolumeAttachments, "", name); err == nil {
			continue // the view is late
		} else if !apierrors.IsNotFound(err) {
			return loop.Outcome{}, fmt.Errorf("look for attachment %s: %w", name, err)
		}
		lost[a.Name] = true
	}
	if len(lost) == 0 {
		return loop.Done(), nil
	}
	return c.withdraw(ctx, key, n, func(name corev1.UniqueVolumeName) bool { return lost[name] })
}

// tell tells people once what keeps a volume from its pods.
func (c *Controller) tell(volume string, v *corev1.PersistentVolume, steps []step) {
	texts := map[string]string{}
	for _, s := range steps {
		switch {
		case v == nil || len(s.at.pods) == 0:
		case s.blocked:
			texts[s.at.node] = multiAttach(volume, steps)
		case s.problem != "":
			texts[s.at.node] = fmt.Sprintf("AttachVolume.Attach failed for volume %q : %s", volume, s.problem)
		}
	}
	c.mu.Lock()
	was := c.told[volume]
	if len(texts) == 0 {
		delete(c.told, volume)
	} else {
		c.told[volume] = texts
	}
	c.mu.Unlock()
	for _, s := range steps {
		text := texts[s.at.node]
		if text == "" || text == was[s.at.node] {
			continue
		}
		for _, pod := range s.at.pods {
			c.events.Event(pod, corev1.EventTypeWarning, "FailedAttachVolume", "%s", text)
		}
	}
}

func multiAttach(volume string, steps []step) string {
	var users []string
	for _, s := range steps {
		if !s.blocked {
			for _, pod := range s.at.pods {
				users = append(users, pod.Name)
			}
		}
	}
	if len(users) == 0 {
		return fmt.Sprintf("Multi-Attach error for volume %q Volume is already exclusively attached to one node and can't be attached to another", volume)
	}
	return fmt.Sprintf("Multi-Attach error for volume %q Volume is already used by pod(s) %s", volume, strings.Join(users, ", "))
}
