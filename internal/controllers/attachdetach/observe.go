package attachdetach

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// The indexes by which a look costs what the volume has.
const (
	byDriver = "attachdetach.driver" // of volumes
	byVolume = "attachdetach.volume" // of attachments
	byNode   = "attachdetach.node"   // of attachments, and of pods that use claims
)

func (c *Controller) index() {
	volumes.IndexPodsByClaim(c.pods)
	c.pods.Index(byNode, func(obj client.Object) []string {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" && len(claimsOf(pod)) > 0 {
			return []string{pod.Spec.NodeName}
		}
		return nil
	})
	volumes.IndexByClaimRef(c.volumes)
	c.volumes.Index(byDriver, func(obj client.Object) []string {
		if v, ok := obj.(*corev1.PersistentVolume); ok && v.Spec.CSI != nil {
			return []string{v.Spec.CSI.Driver}
		}
		return nil
	})
	c.attachments.Index(byVolume, func(obj client.Object) []string {
		if a, ok := obj.(*storagev1.VolumeAttachment); ok && a.Spec.Source.PersistentVolumeName != nil {
			return []string{*a.Spec.Source.PersistentVolumeName}
		}
		return nil
	})
	c.attachments.Index(byNode, func(obj client.Object) []string {
		if a, ok := obj.(*storagev1.VolumeAttachment); ok {
			return []string{a.Spec.NodeName}
		}
		return nil
	})
}

// claimsOf are the claims that a pod uses.
func claimsOf(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if name := volumes.ClaimOf(pod, &pod.Spec.Volumes[i]); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// places are the nodes on which a volume is attached or needed. v is nil when
// there is no such volume any more: then all that can be told of it is what its
// attachments say.
func (c *Controller) places(name string, v *corev1.PersistentVolume, now time.Time) []*place {
	at := map[string]*place{}
	get := func(node string) *place {
		p := at[node]
		if p == nil {
			p = &place{node: node}
			at[node] = p
			if n := client.In[*corev1.Node](c.nodes, "", node); n != nil {
				describe(p, n)
			}
		}
		return p
	}
	for _, pod := range c.needing(v) {
		p := get(pod.Spec.NodeName)
		p.pods = append(p.pods, pod)
	}
	for _, a := range client.Indexed[*storagev1.VolumeAttachment](c.attachments, byVolume, name) {
		if p := get(a.Spec.NodeName); ours(a, v) {
			p.attachment = a
		} else {
			p.foreign = true
		}
	}
	out := make([]*place, 0, len(at))
	for _, p := range at {
		p.read(v)
		slices.SortFunc(p.pods, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		out = append(out, p)
	}
	c.note(name, out, now)
	return out
}

// describe takes over what a Node says of itself.
func describe(p *place, n *corev1.Node) {
	p.seen, p.known, p.managed = n, true, managed(n)
	p.ready, p.outOfService = controllers.NodeReady(n), outOfService(n)
}

// outOfService tells whether somebody has said that a node is off, and that
// nothing runs there.
//
// https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown
func outOfService(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// ours tells whether an attachment is one that this loop made, or would make.
func ours(a *storagev1.VolumeAttachment, v *corev1.PersistentVolume) bool {
	if v == nil || v.Spec.CSI == nil {
		return true // nobody else's either
	}
	return a.Name == volumes.AttachmentName(v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle, a.Spec.NodeName)
}

// read takes over what a node's status says of a volume.
func (p *place) read(v *corev1.PersistentVolume) {
	if p.seen == nil {
		return
	}
	is := naming(p.node, v, p.attachment)
	p.reported = slices.ContainsFunc(p.seen.Status.VolumesAttached, func(x corev1.AttachedVolume) bool { return is(x.Name) })
	p.inUse = slices.ContainsFunc(p.seen.Status.VolumesInUse, is)
}

// naming tells a volume's name in a node's status. Without the volume it is
// known by its attachment, whose name is made of what that name says.
func naming(node string, v *corev1.PersistentVolume, a *storagev1.VolumeAttachment) func(corev1.UniqueVolumeName) bool {
	if v != nil && v.Spec.CSI != nil {
		name := volumes.UniqueName(v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle)
		return func(n corev1.UniqueVolumeName) bool { return n == name }
	}
	return func(n corev1.UniqueVolumeName) bool {
		driver, handle, ok := volumes.OfCSI(n)
		return ok && a != nil && a.Name == volumes.AttachmentName(driver, handle, node)
	}
}

// needing are the pods that have been given a node and use a volume, while it
// is one to be attached.
func (c *Controller) needing(v *corev1.PersistentVolume) (pods []*corev1.Pod) {
	if v == nil || v.Spec.CSI == nil || v.Spec.ClaimRef == nil || !volumes.AttachRequired(client.In[*storagev1.CSIDriver](c.drivers, "", v.Spec.CSI.Driver)) {
		return nil
	}
	claim := client.In[*corev1.PersistentVolumeClaim](c.claims, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
	if claim == nil || !volumes.Bound(v, claim) {
		return nil
	}
	for _, pod := range volumes.PodsOf(c.pods, claim.Namespace, claim.Name) {
		if pod.Spec.NodeName != "" && !controllers.Ended(pod) && usesAs(pod, claim) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// usesAs tells whether a pod may use a claim: one of the name of its own
// (ephemeral) volume may be somebody else's.
func usesAs(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return volumes.ClaimOf(pod, &v) == claim.Name && (v.Ephemeral == nil || volumes.Owned(claim, pod))
	})
}
