package csi

import (
	"context"
	"fmt"
	"slices"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// claimOf is the claim whose volume is to grow on this node; nil: none. A
// resizer makes the volume larger first, and says so on it; what its file
// system has is what the claim says.
func (m *Manager) claimOf(ctx context.Context, j *job) (*v1.PersistentVolumeClaim, error) {
	if j.Volume == nil || j.Volume.Spec.ClaimRef == nil || j.ReadOnly {
		return nil, nil
	}
	ref := j.Volume.Spec.ClaimRef
	c, err := client.Get[*v1.PersistentVolumeClaim](ctx, m.opts.Client, client.PersistentVolumeClaims, ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	room, has := volumes.Capacity(j.Volume), c.Status.Capacity[v1.ResourceStorage]
	if c.UID != ref.UID || has.IsZero() || room.Cmp(has) <= 0 {
		return nil, nil
	}
	return c, nil
}

func (m *Manager) grows(ctx context.Context, j *job) (bool, error) {
	c, err := m.claimOf(ctx, j)
	return c != nil, err
}

// grow has the driver enlarge a volume on this node that has become larger, and
// says on the claim that it has the room now. A driver that has nothing to do on
// the node leaves that to its resizer.
//
// https://kubernetes-csi.github.io/docs/volume-expansion.html
func (m *Manager) grow(ctx context.Context, j *job, target, staging string) error {
	if !j.caps[pb.NodeServiceCapability_RPC_EXPAND_VOLUME] {
		return nil
	}
	c, err := m.claimOf(ctx, j)
	if err != nil || c == nil {
		return err
	}
	secrets, err := m.secrets(ctx, j.Volume.Spec.CSI.NodeExpandSecretRef)
	if err != nil {
		return err
	}
	room := volumes.Capacity(j.Volume)
	req := &pb.NodeExpandVolumeRequest{VolumeId: j.id.handle, VolumePath: m.seen(j.id.driver, target), CapacityRange: &pb.CapacityRange{RequiredBytes: room.Value()},
		VolumeCapability: j.capability(), Secrets: secrets}
	if staging != "" {
		req.StagingTargetPath = m.seen(j.id.driver, staging)
	}
	err = m.ask(ctx, j.id.driver, func(ctx context.Context, d pb.NodeClient) error {
		_, err := d.NodeExpandVolume(ctx, req)
		return err
	})
	if err != nil {
		return fmt.Errorf("MountVolume.NodeExpandVolume failed for volume %q : %w", j.Volume.Name, err)
	}
	grown := c.DeepCopy()
	grown.Status.Capacity[v1.ResourceStorage] = room
	grown.Status.Conditions = slices.DeleteFunc(grown.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool {
		switch c.Type {
		case v1.PersistentVolumeClaimResizing, v1.PersistentVolumeClaimFileSystemResizePending, v1.PersistentVolumeClaimNodeResizeError, v1.PersistentVolumeClaimControllerResizeError:
			return true
		}
		return false
	})
	delete(grown.Status.AllocatedResourceStatuses, v1.ResourceStorage)
	if _, err := m.opts.Client.Update(ctx, client.PersistentVolumeClaims, grown, "status"); err != nil {
		return fmt.Errorf("say that claim %s/%s has grown: %w", c.Namespace, c.Name, err)
	}
	m.opts.Events.Pod(j.Pod, "", v1.EventTypeNormal, "FileSystemResizeSuccessful", "MountVolume.NodeExpandVolume succeeded for volume %q %s", j.Volume.Name, m.opts.Node)
	return nil
}
