package csi_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/csi/csitest"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
)

// enlarge, mark and claim are for the steps of a resizer on the claim "data".
func (r *rig) enlarge(size string) *v1.PersistentVolume {
	r.t.Helper()
	r.edit(client.PersistentVolumes, "", "data", func(obj client.Object) {
		obj.(*v1.PersistentVolume).Spec.Capacity[v1.ResourceStorage] = resource.MustParse(size)
	})
	pv, err := client.Get[*v1.PersistentVolume](context.Background(), r.api, client.PersistentVolumes, "", "data")
	r.must(err)
	return pv
}

func (r *rig) mark(s v1.ClaimResourceStatus) {
	r.t.Helper()
	r.edit(client.PersistentVolumeClaims, "default", "data", func(obj client.Object) {
		obj.(*v1.PersistentVolumeClaim).Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: s}
	}, "status")
}

func (r *rig) claim() *v1.PersistentVolumeClaim {
	r.t.Helper()
	c, err := client.Get[*v1.PersistentVolumeClaim](context.Background(), r.api, client.PersistentVolumeClaims, "default", "data")
	r.must(err)
	return c
}

// TestGrowsInTurn: a volume is larger before its resizer says on the claim that
// the node may go on. A node that went on at once had its own word on the claim
// overwritten by the resizer's, which then stood there for good.
func TestGrowsInTurn(t *testing.T) {
	for _, tc := range []struct {
		name  string
		state v1.ClaimResourceStatus
		soon  time.Duration // when it looks again
	}{
		{"its resizer is at it", v1.PersistentVolumeClaimControllerResizeInProgress, time.Second},
		{"its resizer has not begun", "", time.Minute},
		{"its resizer is to go back on it", v1.PersistentVolumeClaimNodeResizeInfeasible, time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(d *csitest.Driver) { d.Capabilities = append(d.Capabilities, csitest.Expand) })
			pv, pod := r.bound("data"), r.pod("a", "data")
			r.must(r.mount(pod, pv))
			if tc.state != "" {
				r.mark(tc.state)
			}
			pv = r.enlarge("3Gi")
			m, ctx := r.now()
			before := time.Now()
			renew, err := m.Mount(ctx, volume.DriverVolume{Pod: pod, Name: "v", Volume: pv})
			r.must(err)
			if left := renew.Sub(before); left < tc.soon || left > tc.soon+time.Minute/2 {
				t.Errorf("it looks again after %s, want %s", left, tc.soon)
			}
			r.awaitCalls("stage h-data", "publish h-data")
			r.mark(v1.PersistentVolumeClaimNodeResizePending)
			r.must(r.mount(pod, pv))
			r.awaitCalls("stage h-data", "publish h-data", "expand h-data")
			if c := r.claim(); len(c.Status.AllocatedResourceStatuses) != 0 || c.Status.Capacity.Storage().String() != "3Gi" {
				t.Errorf("the claim says %+v", c.Status)
			}
		})
	}
}

// TestDoesNotGrow: what a driver answers decides who is next: the node again, the
// resizer, or the next node.
func TestDoesNotGrow(t *testing.T) {
	for _, tc := range []struct {
		name    string
		code    codes.Code
		lowered bool // people have asked for less meanwhile
		fails   bool // to mount
		state   v1.ClaimResourceStatus
		said    bool // on the claim
		calls   int  // after three looks
	}{
		{"it is away", codes.Unavailable, false, true, v1.PersistentVolumeClaimNodeResizeInProgress, false, 3},
		{"something went wrong", codes.Internal, false, true, v1.PersistentVolumeClaimNodeResizeInProgress, true, 3},
		{"it never will", codes.OutOfRange, false, true, v1.PersistentVolumeClaimNodeResizeInfeasible, true, 1},
		{"nobody wants it any more", codes.Internal, true, true, v1.PersistentVolumeClaimNodeResizeInfeasible, true, 2},
		{"not while it is in use", codes.FailedPrecondition, false, false, v1.PersistentVolumeClaimNodeResizeInProgress, true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			calls := 0
			r := newRig(t, func(d *csitest.Driver) {
				d.Capabilities = append(d.Capabilities, csitest.Expand)
				d.Before = func(_ context.Context, call, _ string) error {
					if call != "expand" {
						return nil
					}
					calls++
					return status.Error(tc.code, "no")
				}
			})
			pv, pod := r.bound("data"), r.pod("a", "data")
			r.must(r.mount(pod, pv))
			r.mark(v1.PersistentVolumeClaimNodeResizePending)
			if pv = r.enlarge("3Gi"); !tc.lowered {
				r.edit(client.PersistentVolumeClaims, "default", "data", func(obj client.Object) {
					obj.(*v1.PersistentVolumeClaim).Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("3Gi")}
				})
			}
			if err := r.mount(pod, pv); (err != nil) != tc.fails {
				t.Errorf("got %v, want an error: %v", err, tc.fails)
			}
			_ = r.mount(pod, pv)
			_ = r.mount(pod, pv)
			c := r.claim()
			said := slices.ContainsFunc(c.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool {
				return c.Type == v1.PersistentVolumeClaimNodeResizeError
			})
			if got := c.Status.AllocatedResourceStatuses[v1.ResourceStorage]; got != tc.state || said != tc.said || c.Status.Capacity.Storage().String() != "1Gi" || calls != tc.calls {
				t.Errorf("the claim says %+v after %d calls, want %s, %d calls", c.Status, calls, tc.state, tc.calls)
			}
			if m, _ := r.now(); !m.Mounted(pod.UID, "v") {
				t.Error("it is not mounted any more")
			}
		})
	}
}

// TestGrowsOnEachNode: a volume that many nodes have is enlarged on each of them,
// also after the first has said on the claim that it is.
func TestGrowsOnEachNode(t *testing.T) {
	r := newRig(t, func(d *csitest.Driver) { d.Capabilities = append(d.Capabilities, csitest.Expand) })
	r.modes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	pv, pod := r.bound("data"), r.pod("a", "data")
	r.must(r.mount(pod, pv))
	grown := func(size string, annotations map[string]string) *v1.PersistentVolume {
		r.edit(client.PersistentVolumeClaims, "default", "data", func(obj client.Object) {
			obj.(*v1.PersistentVolumeClaim).Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
		}, "status")
		r.edit(client.PersistentVolumeClaims, "default", "data", func(obj client.Object) {
			for k, v := range annotations {
				obj.SetAnnotations(map[string]string{k: v})
			}
		})
		return r.enlarge(size)
	}
	pv = grown("2Gi", nil)
	r.must(r.mount(pod, pv))
	r.must(r.mount(pod, pv))
	r.awaitCalls("stage h-data", "publish h-data", "expand h-data")
	pv = grown("3Gi", map[string]string{"volume.kubernetes.io/node-expansion-not-required": "true"})
	r.must(r.mount(pod, pv))
	r.awaitCalls("stage h-data", "publish h-data", "expand h-data")
}
