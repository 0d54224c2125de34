package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/plugin"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/loop"
)

// nodeIDs is the annotation of a Node with what drivers call it, in JSON.
const nodeIDs = "csi.volume.kubernetes.io/nodeid"

// infoPatience is how long a driver that registers may take to say where it is.
const infoPatience = 30 * time.Second

// Register takes a driver, and tells the cluster of it: its CSINode, and the
// labels by which its volumes find the node.
func (m *Manager) Register(ctx context.Context, p plugin.Plugin) error {
	if !slices.ContainsFunc(p.Versions, func(v string) bool { return strings.HasPrefix(strings.TrimPrefix(v, "v"), "1.") }) {
		return fmt.Errorf("CSI driver %s supports the versions %q, of which none is 1.x", p.Name, p.Versions)
	}
	d := driver{endpoint: p.Endpoint, usual: volume.HostPath(m.opts.Root, p.Endpoint) != p.Endpoint}
	info, err := m.info(ctx, d)
	if err != nil {
		return fmt.Errorf("ask CSI driver %s for its node: %w", p.Name, err)
	}
	d.info = info
	if err := m.announce(ctx, p.Name, info); err != nil {
		return err
	}
	m.mu.Lock()
	m.drivers[p.Name] = d
	delete(m.gone, p.Name)
	waiting := []id{}
	for v := range m.volumes {
		if v.driver == p.Name {
			waiting = append(waiting, v)
		}
	}
	m.mu.Unlock()
	for _, v := range waiting {
		m.loop.Look(v.key())
	}
	m.loop.Look(loop.Key{Namespace: ofDrivers, Name: p.Name})
	return nil
}

// Deregister is told that a driver is not there any more.
func (m *Manager) Deregister(p plugin.Plugin) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := m.drivers[p.Name]; !ok || d.endpoint != p.Endpoint {
		return // another serves in its place
	}
	delete(m.drivers, p.Name)
	m.gone[p.Name] = true
	m.loop.Look(loop.Key{Namespace: ofDrivers, Name: p.Name})
}

func (m *Manager) info(ctx context.Context, d driver) (info *pb.NodeGetInfoResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, infoPatience)
	defer cancel()
	err = m.call(ctx, d, func(ctx context.Context, c pb.NodeClient) error {
		info, err = c.NodeGetInfo(ctx, &pb.NodeGetInfoRequest{})
		return err
	})
	if err == nil && info.NodeId == "" {
		err = fmt.Errorf("it has no id of the node")
	}
	return info, err
}

// announce has the Node and the CSINode say what a driver says of this node.
func (m *Manager) announce(ctx context.Context, name string, info *pb.NodeGetInfoResponse) error {
	node, err := m.label(ctx, name, info)
	if err != nil {
		return err
	}
	want := entry(name, info)
	return m.editCSINode(ctx, node, func(drivers []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
		i := slices.IndexFunc(drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name })
		if i < 0 {
			return append(drivers, want)
		}
		if drivers[i].NodeID != want.NodeID || !slices.Equal(drivers[i].TopologyKeys, want.TopologyKeys) {
			return slices.Delete(drivers, i, i+1) // an entry may not change; the next step makes it anew
		}
		drivers[i] = want
		return drivers
	})
}

// entry is what a CSINode says of a driver.
func entry(name string, info *pb.NodeGetInfoResponse) storagev1.CSINodeDriver {
	d := storagev1.CSINodeDriver{Name: name, NodeID: info.NodeId}
	if segments := info.GetAccessibleTopology().GetSegments(); len(segments) > 0 {
		d.TopologyKeys = slices.Sorted(maps.Keys(segments))
	}
	if n := info.MaxVolumesPerNode; n > 0 {
		d.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(n, 1<<31-1)))}
	}
	return d
}

// label puts a driver's topology onto the Node.
func (m *Manager) label(ctx context.Context, name string, info *pb.NodeGetInfoResponse) (*v1.Node, error) {
	for {
		node, err := client.Get[*v1.Node](ctx, m.opts.Client, client.Nodes, "", m.opts.Node)
		if err != nil {
			return nil, err
		}
		changed := node.DeepCopy()
		for key, value := range info.GetAccessibleTopology().GetSegments() {
			if have, ok := changed.Labels[key]; ok && have != value {
				return nil, fmt.Errorf("detected topology value collision: driver reported %q:%q but existing label is %q:%q", key, value, key, have)
			}
			metav1.SetMetaDataLabel(&changed.ObjectMeta, key, value)
		}
		ids := map[string]string{}
		_ = json.Unmarshal([]byte(changed.Annotations[nodeIDs]), &ids) // what cannot be read is written anew
		if ids[name] != info.NodeId {
			ids[name] = info.NodeId
			b, err := json.Marshal(ids)
			if err != nil {
				return nil, err
			}
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, nodeIDs, string(b))
		}
		if maps.Equal(changed.Labels, node.Labels) && maps.Equal(changed.Annotations, node.Annotations) {
			return node, nil
		}
		if node, err = client.Update(ctx, m.opts.Client, client.Nodes, changed); !apierrors.IsConflict(err) {
			return node, err
		}
	}
}

// editCSINode changes the drivers of this node's CSINode until edit changes
// nothing any more. node is its owner; nil: it is not made where it is missing.
func (m *Manager) editCSINode(ctx context.Context, node *v1.Node, edit func([]storagev1.CSINodeDriver) []storagev1.CSINodeDriver) error {
	for {
		n, err := client.Get[*storagev1.CSINode](ctx, m.opts.Client, client.CSINodes, "", m.opts.Node)
		missing := apierrors.IsNotFound(err)
		switch {
		case missing && node == nil:
			return nil
		case missing:
			n = &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: m.opts.Node,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}}}
		case err != nil:
			return err
		}
		changed := n.DeepCopy()
		changed.Spec.Drivers = edit(changed.Spec.Drivers)
		switch {
		case missing:
			_, err = m.opts.Client.Create(ctx, client.CSINodes, changed)
		case slices.EqualFunc(changed.Spec.Drivers, n.Spec.Drivers, sameEntry):
			return nil
		default:
			_, err = m.opts.Client.Update(ctx, client.CSINodes, changed)
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

func sameEntry(a, b storagev1.CSINodeDriver) bool {
	return a.Name == b.Name && a.NodeID == b.NodeID && slices.Equal(a.TopologyKeys, b.TopologyKeys) && limit(a) == limit(b)
}

// limit is how many volumes a node takes; -1: any number.
func limit(d storagev1.CSINodeDriver) int32 {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return -1
	}
	return *d.Allocatable.Count
}

// driverEvery is how often it is looked whether the CSINode still says what a
// driver said.
const driverEvery = 5 * time.Minute

// settleDriver keeps the CSINode's entry of a driver, as new as the driver wants
// it, and takes out that of one that is gone. Entries of drivers that have not
// registered since the kubelet was started stay: they are about to.
func (m *Manager) settleDriver(ctx context.Context, name string) (loop.Outcome, error) {
	m.mu.Lock()
	d, there := m.drivers[name]
	gone := m.gone[name]
	m.mu.Unlock()
	if !there && gone {
		err := m.editCSINode(ctx, nil, func(drivers []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
			return slices.DeleteFunc(drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name })
		})
		return loop.Done(), err
	}
	if !there {
		return loop.Done(), nil
	}
	about, err := m.described(ctx, name)
	if err != nil {
		return loop.Outcome{}, err
	}
	info, next := d.info, driverEvery
	if about != nil && about.Spec.NodeAllocatableUpdatePeriodSeconds != nil {
		next = time.Duration(*about.Spec.NodeAllocatableUpdatePeriodSeconds) * time.Second
		if info, err = m.info(ctx, d); err != nil {
			return loop.Outcome{}, err
		}
	}
	return loop.DoneUntil(next), m.announce(ctx, name, info)
}
