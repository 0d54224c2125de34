package kubelet

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// claim finds the persistent volume behind a volume of a pod, once it may be
// used on this node. The error says what is missing.
func (k *Kubelet) claim(ctx context.Context, pod *v1.Pod, vol *v1.Volume) (*v1.PersistentVolume, error) {
	name := volumes.ClaimOf(pod, vol)
	c, err := client.Get[*v1.PersistentVolumeClaim](ctx, k.opts.Client, client.PersistentVolumeClaims, pod.Namespace, name)
	if err != nil {
		return nil, fmt.Errorf("error processing PVC %s/%s: failed to fetch PVC from API server: %w", pod.Namespace, name, err)
	}
	var pv *v1.PersistentVolume
	err = usable(pod, vol, c)
	if err == nil {
		if pv, err = client.Get[*v1.PersistentVolume](ctx, k.opts.Client, client.PersistentVolumes, "", c.Spec.VolumeName); err != nil {
			err = fmt.Errorf("failed to fetch PV %s from API server: %w", c.Spec.VolumeName, err)
		} else {
			err = reachable(pv, c, k.node.Node())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err)
	}
	return pv, nil
}

// usable tells whether a claim is one that a pod may use: bound, and not about
// to go.
func usable(pod *v1.Pod, vol *v1.Volume, c *v1.PersistentVolumeClaim) error {
	switch {
	case vol.Ephemeral != nil && !volumes.Owned(c, pod):
		return fmt.Errorf("PVC was not created for pod %s (pod is not owner)", pod.Name)
	case c.DeletionTimestamp != nil:
		return errors.New("PVC is being deleted")
	case c.Status.Phase != v1.ClaimBound || c.Spec.VolumeName == "":
		return fmt.Errorf("PVC is not bound: it is %s", c.Status.Phase)
	}
	return nil
}

// reachable tells whether a claim's volume is its own, there, and on this
// node, which is nil when it is not known yet.
func reachable(pv *v1.PersistentVolume, c *v1.PersistentVolumeClaim, node *v1.Node) error {
	switch {
	case pv.Spec.ClaimRef == nil:
		return fmt.Errorf("PV %s has no claimRef, want that of the claim", pv.Name)
	case pv.Spec.ClaimRef.UID != c.UID:
		return fmt.Errorf("PV %s has the claimRef uid %s, want the claim's, %s", pv.Name, pv.Spec.ClaimRef.UID, c.UID)
	case node != nil && !volumes.OnNode(pv, node):
		return fmt.Errorf("PV %s cannot be reached from node %s: NodeAffinity check failed: no matching NodeSelectorTerms", pv.Name, node.Name)
	case localpath.Ours(pv) && !localpath.Made(pv):
		return fmt.Errorf("the folder of PV %s is not made yet", pv.Name)
	}
	return nil
}
