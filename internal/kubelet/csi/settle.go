package csi

import (
	"context"
	"fmt"
	"slices"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// ofNode is the key of what the Node says, ofDrivers the namespace of drivers'.
// Volumes' have the driver's name as namespace, which has a dot or is no name
// of these.
var ofNode = loop.Key{Namespace: "/node"}

const ofDrivers = "/driver"

func (m *Manager) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	switch {
	case key == ofNode:
		return m.settleNode(ctx)
	case key.Namespace == ofDrivers:
		return m.settleDriver(ctx, key.Name)
	}
	return m.settleVolume(ctx, id{key.Namespace, key.Name})
}

// settleVolume takes a volume back that no pod uses any more.
func (m *Manager) settleVolume(ctx context.Context, v id) (loop.Outcome, error) {
	give, err := m.take(ctx, v)
	if err != nil {
		return loop.Outcome{}, err
	}
	defer give()
	used, staged := m.state(v)
	if used {
		return loop.Done(), nil
	}
	if staged {
		r, err := load(m.stagingDir(v))
		if err != nil {
			return loop.Outcome{}, err
		}
		if r != nil {
			err = m.ask(ctx, v.driver, func(ctx context.Context, c pb.NodeClient) error {
				_, err := c.NodeUnstageVolume(ctx, &pb.NodeUnstageVolumeRequest{VolumeId: v.handle, StagingTargetPath: m.seen(v.driver, r.staging())})
				return err
			})
			if err == nil {
				err = r.remove(r.staging())
			}
			if err != nil {
				return loop.Outcome{}, fmt.Errorf("UnmountDevice failed for volume %q: %w", v.handle, err)
			}
		}
		m.setStaged(v, false)
	}
	m.loop.Look(ofNode)
	return loop.Done(), nil
}

// settleNode has the Node say what is in use.
func (m *Manager) settleNode(ctx context.Context) (loop.Outcome, error) {
	_, err := m.reportInUse(ctx)
	if apierrors.IsNotFound(err) {
		return loop.WaitFor("Node "+m.opts.Node, "it is to be registered"), nil
	}
	return loop.Done(), err
}

// inUse are the volumes that are mounted, or about to be, of those that are
// attached to nodes.
func (m *Manager) inUse() []v1.UniqueVolumeName {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []v1.UniqueVolumeName
	for v, k := range m.volumes {
		if k.attach && (k.staged || len(k.users) > 0) {
			names = append(names, volumes.UniqueName(v.driver, v.handle))
		}
	}
	slices.Sort(names)
	return names
}

// reportInUse has the Node say what is in use, and returns it as it says so.
func (m *Manager) reportInUse(ctx context.Context) (*v1.Node, error) {
	m.report.Lock()
	defer m.report.Unlock()
	for {
		node := client.In[*v1.Node](m.nodes, "", m.opts.Node)
		want := m.inUse()
		if node != nil && slices.Equal(node.Status.VolumesInUse, want) {
			return node, nil
		}
		node, err := client.Get[*v1.Node](ctx, m.opts.Client, client.Nodes, "", m.opts.Node)
		if err != nil {
			return nil, err
		}
		if slices.Equal(node.Status.VolumesInUse, want) {
			return node, m.nodes.WaitFor(ctx, node.ResourceVersion)
		}
		node = node.DeepCopy()
		node.Status.VolumesInUse = want
		node, err = client.Update(ctx, m.opts.Client, client.Nodes, node, "status")
		if apierrors.IsConflict(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		return node, m.nodes.WaitFor(ctx, node.ResourceVersion)
	}
}

// TearDown has the volumes of a pod that has ended taken back.
func (m *Manager) TearDown(ctx context.Context, uid types.UID) error {
	all, err := m.published(uid)
	if err != nil {
		return err
	}
	for _, r := range all {
		if err := m.unpublish(ctx, r); err != nil {
			return fmt.Errorf("UnmountVolume.TearDown failed for volume %q: %w", r.Name, err)
		}
	}
	m.leaveAll(uid)
	return nil
}

func (m *Manager) unpublish(ctx context.Context, r *record) error {
	give, err := m.take(ctx, r.id())
	if err != nil {
		return err
	}
	defer give()
	err = m.ask(ctx, r.Driver, func(ctx context.Context, c pb.NodeClient) error {
		_, err := c.NodeUnpublishVolume(ctx, &pb.NodeUnpublishVolumeRequest{VolumeId: r.Handle, TargetPath: m.seen(r.Driver, r.target())})
		return err
	})
	if err != nil {
		return err
	}
	return r.remove(r.target())
}
