package csi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// nodeExpansionNotRequired is the annotation by which a resizer says of a claim
// that no node has to do anything for its volume to be larger.
const nodeExpansionNotRequired = "volume.kubernetes.io/node-expansion-not-required"

const (
	// pendingEvery is how often a claim is looked at whose volume is larger
	// already, while its resizer is about to say that the node may go on.
	pendingEvery = time.Second
	// largerEvery is how often it is when nobody is known to be at it.
	largerEvery = time.Minute
)

// growth is what is to be done on this node for a volume that has become larger
// than its claim says, or than it is here.
type growth struct {
	claim *v1.PersistentVolumeClaim
	room  resource.Quantity
	// due: the resizer has left the rest to the node.
	due bool
	// again is how soon to look once more; 0: no need.
	again time.Duration
	// here: the claim says it all, but every node that has the volume is asked.
	here bool
}

// growth looks whether a volume is to grow here. A resizer makes it larger
// first, says so on the volume, and then on the claim that it is the node's turn:
// a node that did not wait for that would have its own word on the claim undone.
// r is what was written down when the volume was published; nil: it is being.
//
// https://kubernetes-csi.github.io/docs/volume-expansion.html
func (m *Manager) growth(ctx context.Context, j *job, r *record) (growth, error) {
	if j.Volume == nil || j.Volume.Spec.ClaimRef == nil || j.ReadOnly {
		return growth{}, nil
	}
	ref, room := j.Volume.Spec.ClaimRef, volumes.Capacity(j.Volume)
	if r != nil && r.Size >= room.Value() {
		return growth{}, nil // as large here as it is anywhere
	}
	c, err := client.Get[*v1.PersistentVolumeClaim](ctx, m.opts.Client, client.PersistentVolumeClaims, ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return growth{}, nil
	} else if err != nil {
		return growth{}, err
	}
	has := c.Status.Capacity[v1.ResourceStorage]
	if c.UID != ref.UID || has.IsZero() {
		return growth{}, nil
	}
	g := growth{claim: c, room: room}
	switch c.Status.AllocatedResourceStatuses[v1.ResourceStorage] {
	case v1.PersistentVolumeClaimNodeResizePending, v1.PersistentVolumeClaimNodeResizeInProgress:
		g.due = r == nil || r.Refused != room.Value()
	case v1.PersistentVolumeClaimControllerResizeInProgress:
		g.again = pendingEvery
	case "":
		g.here = room.Cmp(has) <= 0
		g.due = g.here && r != nil && slices.Contains(c.Spec.AccessModes, v1.ReadWriteMany) && !metav1.HasAnnotation(c.ObjectMeta, nodeExpansionNotRequired)
		if !g.here {
			g.again = largerEvery
		}
	default: // it is the resizer's turn
		g.again = largerEvery
	}
	return g, nil
}

// grow has the driver enlarge a volume on this node that has become larger, and
// says on the claim that it has the room now. A driver that has nothing to do on
// the node leaves that to its resizer. r is written down by the caller.
func (m *Manager) grow(ctx context.Context, j *job, g growth, r *record, staging string) error {
	if g.claim == nil || !g.due && !g.here {
		return nil
	}
	if !g.due || !j.caps[pb.NodeServiceCapability_RPC_EXPAND_VOLUME] {
		if g.here {
			r.Size = g.room.Value()
		}
		return nil
	}
	secrets, err := m.secrets(ctx, j.Volume.Spec.CSI.NodeExpandSecretRef)
	if err != nil {
		return err
	}
	if !g.here {
		if g.claim, err = m.sayStatus(ctx, g.claim, func(st *v1.PersistentVolumeClaimStatus) {
			st.AllocatedResourceStatuses = maps.Clone(st.AllocatedResourceStatuses)
			st.AllocatedResourceStatuses[v1.ResourceStorage] = v1.PersistentVolumeClaimNodeResizeInProgress
		}); err != nil {
			return fmt.Errorf("say that claim %s grows: %w", j.Volume.Spec.ClaimRef.Name, err)
		}
	}
	req := &pb.NodeExpandVolumeRequest{VolumeId: j.id.handle, VolumePath: m.seen(j.id.driver, r.target()), CapacityRange: &pb.CapacityRange{RequiredBytes: g.room.Value()},
		VolumeCapability: j.capability(), Secrets: secrets}
	if staging != "" {
		req.StagingTargetPath = m.seen(j.id.driver, staging)
	}
	err = m.ask(ctx, j.id.driver, func(ctx context.Context, d pb.NodeClient) error {
		_, err := d.NodeExpandVolume(ctx, req)
		return err
	})
	if err != nil {
		return m.notGrown(ctx, j, g, r, err)
	}
	r.Size = g.room.Value()
	if !g.here {
		if _, err := m.sayStatus(ctx, g.claim, func(st *v1.PersistentVolumeClaimStatus) {
			st.Capacity = maps.Clone(st.Capacity)
			st.Capacity[v1.ResourceStorage] = g.room
			st.Conditions = slices.DeleteFunc(slices.Clone(st.Conditions), ofResizing)
			st.AllocatedResourceStatuses = maps.Clone(st.AllocatedResourceStatuses)
			delete(st.AllocatedResourceStatuses, v1.ResourceStorage)
		}); err != nil {
			r.Size = 0 // asked again, which every driver bears
			return fmt.Errorf("say that claim %s/%s has grown: %w", g.claim.Namespace, g.claim.Name, err)
		}
	}
	m.opts.Events.Pod(j.Pod, "", v1.EventTypeNormal, "FileSystemResizeSuccessful", "MountVolume.NodeExpandVolume succeeded for volume %q %s", j.Volume.Name, m.opts.Node)
	return nil
}

// notGrown says on the claim what a driver answered that did not enlarge the
// volume. What it will never do is the resizer's to go back on; what it does not
// do while the volume is in use is no reason not to use it.
func (m *Manager) notGrown(ctx context.Context, j *job, g growth, r *record, why error) error {
	failed := fmt.Errorf("MountVolume.NodeExpandVolume failed for volume %q : %w", j.Volume.Name, why)
	st, said := status.FromError(why)
	if !said {
		return failed // it was not asked, for all that is known
	}
	code := st.Code()
	switch code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return failed // it may be at it still
	}
	if !g.here {
		given := g.claim.Spec.Resources.Requests[v1.ResourceStorage]
		lowered := given.Cmp(g.room) != 0 && slices.ContainsFunc(g.claim.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool {
			return c.Type == v1.PersistentVolumeClaimNodeResizeError
		})
		never := lowered || code == codes.InvalidArgument || code == codes.OutOfRange || code == codes.NotFound
		_, err := m.sayStatus(ctx, g.claim, func(st *v1.PersistentVolumeClaimStatus) {
			if never {
				st.AllocatedResourceStatuses = maps.Clone(st.AllocatedResourceStatuses)
				st.AllocatedResourceStatuses[v1.ResourceStorage] = v1.PersistentVolumeClaimNodeResizeInfeasible
			}
			st.Conditions = slices.DeleteFunc(slices.Clone(st.Conditions), func(c v1.PersistentVolumeClaimCondition) bool {
				return c.Type == v1.PersistentVolumeClaimNodeResizeError
			})
			st.Conditions = append(st.Conditions, v1.PersistentVolumeClaimCondition{Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue,
				LastTransitionTime: metav1.Now(), Message: "failed to expand pvc with " + why.Error()})
		})
		if err != nil {
			m.opts.Logger.Info("a claim does not say why it has not grown", "claim", g.claim.Namespace+"/"+g.claim.Name, "error", err)
		}
	}
	if code == codes.FailedPrecondition {
		r.Refused = g.room.Value()
		m.opts.Events.Pod(j.Pod, "", v1.EventTypeWarning, "VolumeResizeFailed", "%s", failed)
		return nil
	}
	return failed
}

func ofResizing(c v1.PersistentVolumeClaimCondition) bool {
	switch c.Type {
	case v1.PersistentVolumeClaimResizing, v1.PersistentVolumeClaimFileSystemResizePending, v1.PersistentVolumeClaimNodeResizeError, v1.PersistentVolumeClaimControllerResizeError:
		return true
	}
	return false
}

// sayStatus changes a claim's status, unless somebody else has changed it.
func (m *Manager) sayStatus(ctx context.Context, c *v1.PersistentVolumeClaim, change func(*v1.PersistentVolumeClaimStatus)) (*v1.PersistentVolumeClaim, error) {
	n := c.DeepCopy()
	change(&n.Status)
	return client.Update(ctx, m.opts.Client, client.PersistentVolumeClaims, n, "status")
}
