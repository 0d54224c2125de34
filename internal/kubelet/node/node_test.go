package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri/critest"
)

type silent struct{}

func (silent) Node(_, _, _ string, _ ...any) {}

// sick is a runtime that may be down, or hang.
type sick struct {
	*critest.Runtime
	down, hangs bool
}

// hang answers only when the caller has had enough, if it hangs.
func (s *sick) hang(ctx context.Context) error {
	if !s.hangs {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *sick) Version(ctx context.Context, in *runtimeapi.VersionRequest, o ...grpc.CallOption) (*runtimeapi.VersionResponse, error) {
	if err := s.hang(ctx); err != nil {
		return nil, err
	}
	return s.Runtime.Version(ctx, in, o...)
}

func (s *sick) ListImages(ctx context.Context, in *runtimeapi.ListImagesRequest, o ...grpc.CallOption) (*runtimeapi.ListImagesResponse, error) {
	if err := s.hang(ctx); err != nil {
		return nil, err
	}
	return s.Runtime.ListImages(ctx, in, o...)
}

func (s *sick) Status(ctx context.Context, in *runtimeapi.StatusRequest, o ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	if s.down {
		return nil, errors.New("gone away")
	}
	if err := s.hang(ctx); err != nil {
		return nil, err
	}
	return s.Runtime.Status(ctx, in, o...)
}

func reporter(t *testing.T, h *apitest.Harness, rt *sick) (*Reporter, client.Interface) {
	c := h.Client("system:node:n1")
	r := New(Options{Name: "n1", Client: c, Runtime: rt, IPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Port: 10250, MaxPods: 110,
		Labels: map[string]string{"x": "y"}, Taints: []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}},
		RootDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Events: silent{}})
	return r, c
}

func get(t *testing.T, c client.Interface) *v1.Node {
	t.Helper()
	o, err := c.Get(context.Background(), Resource, "", "n1")
	if err != nil {
		t.Fatal(err)
	}
	return o.(*v1.Node)
}

// A node registers, stays silent while nothing changes, and says when its
// runtime is away.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{Namespaces: []string{"default", v1.NamespaceNodeLease}})
		rt := &sick{Runtime: critest.New("img:1")}
		r, c := reporter(t, h, rt)
		look := func() bool {
			t.Helper()
			ready, err := r.Look(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			return ready
		}
		if !look() {
			t.Error("the node is not ready")
		}
		n := get(t, c)
		if n.Labels[v1.LabelHostname] != "n1" || n.Labels["x"] != "y" || n.Labels[v1.LabelOSStable] != "linux" {
			t.Errorf("labels are %v", n.Labels)
		}
		s := n.Status
		if s.Capacity.Pods().Value() != 110 || s.Capacity.Cpu().IsZero() || s.Addresses[0].Address != "192.0.2.1" || s.DaemonEndpoints.KubeletEndpoint.Port != 10250 ||
			s.NodeInfo.ContainerRuntimeVersion != "critest://1" || len(s.Images) != 1 {
			t.Errorf("status is %+v", s)
		}
		for range 10 {
			time.Sleep(10 * time.Second)
			look()
		}
		if got := get(t, c); got.ResourceVersion != n.ResourceVersion {
			t.Error("the node was written though nothing changed")
		}
		time.Sleep(5 * time.Minute)
		look()
		after := get(t, c)
		if after.ResourceVersion == n.ResourceVersion {
			t.Error("the node was not written for 5 minutes")
		}
		rt.down = true
		if look() {
			t.Error("ready without a runtime")
		}
		cond := condition(get(t, c).Status.Conditions, v1.NodeReady)
		if cond.Status != v1.ConditionFalse || cond.Reason != "KubeletNotReady" || cond.Message != "container runtime is down: gone away" {
			t.Errorf("condition is %+v", cond)
		}
		// Somebody takes the kubelet's label away, and adds one of theirs.
		mine := get(t, c).DeepCopy()
		delete(mine.Labels, v1.LabelHostname)
		mine.Labels["theirs"] = "1"
		if _, err := c.Update(context.Background(), Resource, mine); err != nil {
			t.Fatal(err)
		}
		look()
		if l := get(t, c).Labels; l[v1.LabelHostname] != "n1" || l["theirs"] != "1" {
			t.Errorf("labels are %v", l)
		}
	})
}

// A node whose runtime hangs says so within half a minute, from its first look
// on as well as later, and is ready again once the runtime answers.
func TestRuntimeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{Namespaces: []string{"default", v1.NamespaceNodeLease}})
		rt := &sick{Runtime: critest.New("img:1")}
		r, c := reporter(t, h, rt)
		for _, hangs := range []bool{true, false, true, false} {
			rt.hangs = hangs
			began := time.Now()
			ready, err := r.Look(context.Background())
			if took := time.Since(began); err != nil || ready == hangs || took > 30*time.Second {
				t.Fatalf("hangs %t: ready %t after %s, %v", hangs, ready, took, err)
			}
			got := condition(get(t, c).Status.Conditions, v1.NodeReady)
			if (got.Status == v1.ConditionTrue) == hangs {
				t.Errorf("hangs %t: condition is %+v", hangs, got)
			}
			if why, since := r.Problem(); hangs && (why != got.Message || since.Before(began)) || !hangs && why != "" {
				t.Errorf("hangs %t: the problem is %q since %s", hangs, why, since)
			}
		}
		if images := get(t, c).Status.Images; len(images) != 1 {
			t.Errorf("images are %v", images)
		}
	})
}

func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{Namespaces: []string{"default", v1.NamespaceNodeLease}})
		r, c := reporter(t, h, &sick{Runtime: critest.New()})
		if _, err := r.Look(context.Background()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); r.renew(ctx) }()
		lease := func() *coordinationv1.Lease {
			t.Helper()
			o, err := c.Get(context.Background(), leases, v1.NamespaceNodeLease, "n1")
			if err != nil {
				t.Fatal(err)
			}
			return o.(*coordinationv1.Lease)
		}
		time.Sleep(time.Second)
		first := lease()
		if *first.Spec.HolderIdentity != "n1" || *first.Spec.LeaseDurationSeconds != 40 || len(first.OwnerReferences) != 1 {
			t.Errorf("lease is %+v", first)
		}
		time.Sleep(30 * time.Second)
		if age := time.Since(lease().Spec.RenewTime.Time); age > renewEvery {
			t.Errorf("the lease is %v old", age)
		}
		// Deleted: made anew.
		if err := c.Delete(context.Background(), leases, v1.NamespaceNodeLease, "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		lease()
		cancel()
		<-done
	})
}
