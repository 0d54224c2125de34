package csi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/csi/csitest"
	"github.com/setpoint-project/setpoint/internal/kubelet/plugin"
)

func (r *rig) csiNode() *storagev1.CSINode {
	n, err := client.Get[*storagev1.CSINode](context.Background(), r.api, client.CSINodes, "", "n1")
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// TestRegister: what a driver says of the node is on its CSINode and Node, as
// long as the driver is there.
func TestRegister(t *testing.T) {
	r := newRig(t, func(d *csitest.Driver) {
		d.Topology, d.Most = map[string]string{"example.com/zone": "z", "example.com/rack": "r"}, 8
	})
	n := r.csiNode()
	want := []storagev1.CSINodeDriver{{Name: name, NodeID: "id-of-n1", TopologyKeys: []string{"example.com/rack", "example.com/zone"}, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(8))}}}
	if d := cmp.Diff(want, n.Spec.Drivers); d != "" || len(n.OwnerReferences) != 1 || n.OwnerReferences[0].Kind != "Node" {
		t.Errorf("(-want +got):\n%s, owned by %v", d, n.OwnerReferences)
	}
	node, err := client.Get[*v1.Node](context.Background(), r.api, client.Nodes, "", "n1")
	r.must(err)
	if node.Labels["example.com/zone"] != "z" || node.Labels["example.com/rack"] != "r" || node.Annotations["csi.volume.kubernetes.io/nodeid"] != `{"disk.example.com":"id-of-n1"}` {
		t.Errorf("the node has the labels %v, annotations %v", node.Labels, node.Annotations)
	}
	m, ctx := r.now()
	r.must(m.Register(ctx, r.plugin())) // twice: nothing is written
	if again := r.csiNode(); again.ResourceVersion != n.ResourceVersion {
		t.Error("the CSINode was written again")
	}

	// A driver that has come to call the node something else.
	r.driver.NodeID, r.driver.Most = "another-id", 9
	r.must(m.Register(ctx, r.plugin()))
	if d := r.csiNode().Spec.Drivers; len(d) != 1 || d[0].NodeID != "another-id" || *d[0].Allocatable.Count != 9 {
		t.Errorf("got %+v", d)
	}

	// One that says that the node is where it is not is refused.
	r.driver.Topology = map[string]string{"example.com/zone": "elsewhere"}
	if err := m.Register(ctx, r.plugin()); err == nil || !strings.Contains(err.Error(), `detected topology value collision: driver reported "example.com/zone":"elsewhere" but existing label is "example.com/zone":"z"`) {
		t.Errorf("got %v", err)
	}
	old := r.plugin()
	old.Versions = []string{"0.3.0"}
	if err := m.Register(ctx, old); err == nil || !strings.Contains(err.Error(), "none is 1.x") {
		t.Errorf("got %v", err)
	}

	// One of two sockets goes: the other stays.
	m.Deregister(plugin.Plugin{Type: plugin.CSI, Name: name, Endpoint: "/elsewhere"})
	m.Deregister(r.plugin())
	r.await("the driver is taken out", func() string {
		if d := r.csiNode().Spec.Drivers; len(d) != 0 {
			return fmt.Sprint(d)
		}
		return ""
	})
	pod := r.pod("a", "data")
	if err := r.mount(pod, r.bound("data")); err == nil || !strings.Contains(err.Error(), "not found in the list of registered CSI drivers") {
		t.Errorf("got %v", err)
	}
}

// TestLimitFollows: how many volumes a node takes is asked for again, as often
// as the driver wants.
func TestLimitFollows(t *testing.T) {
	t.Parallel() // it takes as long as a driver may ask for
	r := newRig(t, func(d *csitest.Driver) { d.Most = 3 })
	every := int64(10)
	r.create(client.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: &every}})
	m, ctx := r.now()
	r.must(m.Register(ctx, r.plugin()))
	r.driver.SetMost(5)
	r.await("the limit is the new one", func() string {
		d := r.csiNode().Spec.Drivers
		if len(d) != 1 || d[0].Allocatable == nil || *d[0].Allocatable.Count != 5 {
			return fmt.Sprint(d)
		}
		return ""
	})
	// Somebody removes the CSINode: it is there again with the next look.
	r.must(r.api.Delete(context.Background(), client.CSINodes, "", "n1", metav1.DeleteOptions{}))
	r.await("the CSINode is made again", func() string {
		_, err := r.api.Get(context.Background(), client.CSINodes, "", "n1")
		if apierrors.IsNotFound(err) {
			return "it is not there"
		}
		return ""
	})
}
