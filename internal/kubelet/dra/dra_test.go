package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	draapi "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/plugin"
	"github.com/setpoint-project/setpoint/loop"
)

// gadgets is a driver: it prepares by noting the claim.
type gadgets struct {
	draapi.UnimplementedDRAPluginServer
	name, path string

	mu       sync.Mutex
	prepared map[string]string // guarded by mu; names of claims by uid
	calls    int
	fail     func() error // after the deed was done: the answer is lost
	refuse   string
	kill     func() // stops to serve, and leaves the socket there
}

func (g *gadgets) NodePrepareResources(_ context.Context, q *draapi.NodePrepareResourcesRequest) (*draapi.NodePrepareResourcesResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	out := &draapi.NodePrepareResourcesResponse{Claims: map[string]*draapi.NodePrepareResourceResponse{}}
	for _, c := range q.Claims {
		if g.refuse != "" {
			out.Claims[c.Uid] = &draapi.NodePrepareResourceResponse{Error: g.refuse}
			continue
		}
		g.prepared[c.Uid] = c.Name
		out.Claims[c.Uid] = &draapi.NodePrepareResourceResponse{Devices: []*draapi.Device{
			{RequestNames: []string{"one"}, PoolName: "p", DeviceName: "d1", CdiDeviceIds: []string{g.name + "/gadget=" + c.Name + "-1"}},
			{RequestNames: []string{"two/small"}, PoolName: "p", DeviceName: "d2", CdiDeviceIds: []string{g.name + "/gadget=" + c.Name + "-2", g.name + "/gadget=both"}},
		}}
	}
	if g.fail != nil {
		if err := g.fail(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (g *gadgets) NodeUnprepareResources(_ context.Context, q *draapi.NodeUnprepareResourcesRequest) (*draapi.NodeUnprepareResourcesResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	out := &draapi.NodeUnprepareResourcesResponse{Claims: map[string]*draapi.NodeUnprepareResourceResponse{}}
	for _, c := range q.Claims {
		delete(g.prepared, c.Uid)
		out.Claims[c.Uid] = &draapi.NodeUnprepareResourceResponse{}
	}
	if g.fail != nil {
		if err := g.fail(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (g *gadgets) have() (names []string, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Values(g.prepared)), g.calls
}

func (g *gadgets) plugin() plugin.Plugin {
	return plugin.Plugin{Type: plugin.DRA, Name: g.name, Endpoint: g.path, Socket: g.path, Versions: []string{draapi.DRAPluginService}}
}

func serve(t testing.TB, name string) *gadgets {
	t.Helper()
	dir, err := os.MkdirTemp("", "dra") // short: the kernel bounds the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	g := &gadgets{name: name, path: filepath.Join(dir, "s"), prepared: map[string]string{}}
	l, err := net.Listen("unix", g.path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s := grpc.NewServer()
	g.kill = s.Stop
	draapi.RegisterDRAPluginServer(s, g)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return g
}

// rig is a node's Manager, an API server and two drivers.
type rig struct {
	t       testing.TB
	api     *apitest.Harness
	m       *Manager
	root    string
	drivers []*gadgets
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, api: apitest.New(t, apitest.Options{}), root: t.TempDir(), drivers: []*gadgets{serve(t, "a.example.com"), serve(t, "b.example.com")}}
	r.restart()
	t.Cleanup(func() { r.m.closeAll() })
	return r
}

// restart has another kubelet, with what the one before left on disk.
func (r *rig) restart() {
	r.t.Helper()
	if r.m != nil {
		r.m.closeAll()
	}
	m, err := New(Options{Node: "n1", Client: r.api.Client("system:node:n1"), Root: r.root})
	if err != nil {
		r.t.Fatal(err)
	}
	r.m = m
	for _, d := range r.drivers {
		if err := m.Register(context.Background(), d.plugin()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// claim makes a claim with devices of drivers, reserved for pods.
func (r *rig) claim(name string, drivers []string, pods ...*v1.Pod) *resourcev1.ResourceClaim {
	r.t.Helper()
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gadget"}}}}}}
	o, err := r.m.opts.Client.Create(context.Background(), client.ResourceClaims, c)
	if err != nil {
		r.t.Fatal(err)
	}
	c = o.(*resourcev1.ResourceClaim).DeepCopy()
	if len(drivers) > 0 {
		c.Status.Allocation = &resourcev1.AllocationResult{}
		for i, d := range drivers {
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{
				Request: "one", Driver: d, Pool: "p", Device: fmt.Sprintf("%s-%d", name, i)})
		}
		for _, p := range pods {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
		}
		if o, err = r.m.opts.Client.Update(context.Background(), client.ResourceClaims, c, "status"); err != nil {
			r.t.Fatal(err)
		}
	}
	return o.(*resourcev1.ResourceClaim)
}

func podOf(name string, claims ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)}}
	for _, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "the-" + c, ResourceClaimName: &c})
	}
	return p
}

func uses(claim, request string) *v1.Container {
	return &v1.Container{Name: "main", Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: claim, Request: request}}}}
}

func (r *rig) want(what string, want [2]string, calls int) {
	r.t.Helper()
	all := 0
	for i, d := range r.drivers {
		have, n := d.have()
		if all += n; strings.Join(have, " ") != want[i] {
			r.t.Errorf("%s: driver %s has prepared %q, want %q", what, d.name, have, want[i])
		}
	}
	if all != calls {
		r.t.Errorf("%s: drivers were called %d times, want %d", what, all, calls)
	}
}

// Devices are prepared once for all pods that share a claim, and given back
// with the last, also by a kubelet that found them prepared.
func TestPrepare(t *testing.T) {
	r := newRig(t)
	one, two := podOf("one", "x", "y"), podOf("two", "x")
	r.claim("x", []string{"a.example.com", "b.example.com"}, one, two)
	r.claim("y", []string{"b.example.com"}, one)
	for range 2 {
		if err := r.m.Prepare(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		r.want("prepared", [2]string{"x", "x y"}, 3)
	}
	for _, c := range []struct {
		claim, request, want string
	}{
		{"the-x", "", "a.example.com/gadget=x-1 a.example.com/gadget=x-2 a.example.com/gadget=both b.example.com/gadget=x-1 b.example.com/gadget=x-2 b.example.com/gadget=both"},
		{"the-y", "one", "b.example.com/gadget=y-1"},
		{"the-y", "two", "b.example.com/gadget=y-2 b.example.com/gadget=both"},
		{"the-y", "three", ""},
	} {
		if got, err := r.m.Devices(one, uses(c.claim, c.request)); err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("devices of %s, request %q: %q %v, want %q", c.claim, c.request, got, err, c.want)
		}
	}
	if _, err := r.m.Devices(two, uses("the-x", "")); err == nil {
		t.Error("a pod got devices that were not prepared for it")
	}
	r.restart()
	if err := errors.Join(r.m.Prepare(t.Context(), one), r.m.Prepare(t.Context(), two)); err != nil {
		t.Fatal(err)
	}
	r.want("shared, after a restart", [2]string{"x", "x y"}, 3)
	if got, err := r.m.Devices(two, uses("the-x", "one")); err != nil || len(got) != 2 {
		t.Errorf("devices of the second pod: %q %v", got, err)
	}
	if err := r.m.Unprepare(t.Context(), one.UID); err != nil {
		t.Fatal(err)
	}
	r.want("one ended", [2]string{"x", "x"}, 4)
	if r.m.Holds(one.UID) || !r.m.Holds(two.UID) {
		t.Errorf("held by: %v", r.m.Pods())
	}
	r.restart()
	if err := r.m.Unprepare(t.Context(), two.UID); err != nil {
		t.Fatal(err)
	}
	r.want("both ended", [2]string{"", ""}, 6)
	if left, err := os.ReadDir(r.m.dir()); err != nil || len(left) > 0 {
		t.Errorf("on disk are %v, %v", left, err)
	}
}

// What a pod may not use, or nobody can prepare, is refused.
func TestRefuse(t *testing.T) {
	r := newRig(t)
	other := podOf("other")
	p := podOf("p", "absent", "unallocated", "unreserved", "strange", "refused")
	r.claim("unallocated", nil)
	r.claim("unreserved", []string{"a.example.com"}, other)
	r.claim("strange", []string{"c.example.com"}, p)
	r.claim("refused", []string{"b.example.com"}, p)
	r.drivers[1].refuse = "it is broken"
	err := r.m.Prepare(t.Context(), p)
	if err == nil {
		t.Fatal("it was prepared")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{
		"failed to fetch ResourceClaim absent referenced by pod p: ",
		"pod p(uid-of-p) is not allowed to use resource claim unallocated(",
		"pod p(uid-of-p) is not allowed to use resource claim unreserved(",
		"DRA driver c.example.com is not registered",
		"NodePrepareResources of driver b.example.com failed for claim default/refused: it is broken",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("want %q in line %d of %q", want, i, lines)
		}
	}
	r.want("refused", [2]string{"", ""}, 1)
	if err := r.m.Register(t.Context(), plugin.Plugin{Name: "old.example.com", Versions: []string{"v1alpha3"}}); err == nil || !strings.Contains(err.Error(), draapi.DRAPluginService) {
		t.Errorf("a driver of another version: %v", err)
	}
	// One whose answer nobody got was asked all the same, and is asked to undo it.
	if !r.m.Holds(p.UID) {
		t.Fatal("nobody remembers who was asked")
	}
	if err := r.m.Unprepare(t.Context(), p.UID); err == nil || !strings.Contains(err.Error(), "c.example.com is not registered") {
		t.Errorf("given back: %v", err)
	}
	r.drivers = append(r.drivers, serve(t, "c.example.com"))
	r.restart()
	if err := r.m.Unprepare(t.Context(), p.UID); err != nil || r.m.Holds(p.UID) {
		t.Errorf("given back at last: %v, held by %v", err, r.m.Pods())
	}
}

// However often answers are lost and the kubelet is killed, in the end just
// the devices of the pods that are there are prepared.
func TestConverge(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	r := newRig(t)
	var rndMu sync.Mutex
	lose := func() error {
		rndMu.Lock()
		defer rndMu.Unlock()
		if rnd.IntN(3) == 0 {
			return errors.New("the answer was lost")
		}
		return nil
	}
	for _, d := range r.drivers {
		d.fail = lose
	}
	draw := func(n int) int {
		rndMu.Lock()
		defer rndMu.Unlock()
		return rnd.IntN(n)
	}
	names := []string{"x", "y", "z"}
	pods := []*v1.Pod{podOf("p", "x", "y"), podOf("q", "y", "z"), podOf("r", "x", "z")}
	for i, n := range names {
		r.claim(n, [][]string{{"a.example.com"}, {"b.example.com"}, {"a.example.com", "b.example.com"}}[i], pods...)
	}
	runs := map[types.UID]bool{}
	for range 200 {
		p := pods[draw(len(pods))]
		switch draw(5) {
		case 0:
			r.restart()
		case 1, 2:
			runs[p.UID] = true
			_ = r.m.Prepare(t.Context(), p)
		default:
			delete(runs, p.UID)
			_ = r.m.Unprepare(t.Context(), p.UID)
		}
	}
	wanted := map[string]bool{}
	for _, p := range pods {
		for done := false; !done; {
			if runs[p.UID] {
				done = r.m.Prepare(t.Context(), p) == nil
			} else {
				done = r.m.Unprepare(t.Context(), p.UID) == nil
			}
		}
		for _, c := range p.Spec.ResourceClaims {
			wanted[*c.ResourceClaimName] = wanted[*c.ResourceClaimName] || runs[p.UID]
		}
	}
	for i, of := range [][]string{{"x", "z"}, {"y", "z"}} {
		want := slices.DeleteFunc(of, func(n string) bool { return !wanted[n] })
		if have, _ := r.drivers[i].have(); !slices.Equal(have, want) {
			t.Errorf("driver %s has prepared %q, want %q", r.drivers[i].name, have, want)
		}
	}
}

// The slices of a driver that is gone for a while are removed, those of others
// and of other nodes are not.
func TestSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := apitest.New(t, apitest.Options{})
		c := api.Client("system:node:n1")
		m, err := New(Options{Node: "n1", Client: c, Root: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		for name, s := range map[string][2]string{"here": {"here.example.com", "n1"}, "gone": {"gone.example.com", "n1"}, "other": {"gone.example.com", "n2"}} {
			_, err := c.Create(t.Context(), client.ResourceSlices, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
				Driver: s[0], NodeName: &s[1], Pool: resourcev1.ResourcePool{Name: s[1], ResourceSliceCount: 1}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		have := func() string {
			list, _, err := c.List(t.Context(), client.ResourceSlices, "", metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, o := range list {
				names = append(names, o.GetName())
			}
			slices.Sort(names)
			return strings.Join(names, " ")
		}
		here := &driver{}
		m.drivers["here.example.com"] = here
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.Run(ctx)
		}()
		for _, step := range []struct {
			do    func()
			after time.Duration
			want  string
		}{
			{nil, absence - time.Second, "gone here other"},
			{nil, 2 * time.Second, "here other"},
			{here.settle, absence - time.Second, "here other"},                           // it went
			{func() { here.absent = time.Time{} }, absence, "here other"},                // and came back
			{here.settle, absence + time.Second, "other"},                                // it went for good
			{func() { m.drivers["here.example.com"] = &driver{} }, 3 * absence, "other"}, // nothing left to do
		} {
			if step.do != nil {
				m.mu.Lock()
				step.do()
				m.mu.Unlock()
				m.look()
			}
			time.Sleep(step.after)
			synctest.Wait()
			if got := have(); got != step.want {
				t.Errorf("slices are %q, want %q", got, step.want)
			}
		}
		cancel()
		<-done
	})
}

// What keeps the slices of a driver that is gone is told, since when, until they
// are removed.
func TestSlicesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusing := &refusing{Interface: apitest.New(t, apitest.Options{}).Client("system:node:n1"), why: errors.New("not today")}
		m, err := New(Options{Node: "n1", Client: refusing, Root: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Run(ctx) }()
		start := time.Now()
		time.Sleep(absence - time.Second)
		if gaps := m.Gaps(); len(gaps) != 0 {
			t.Errorf("before it looks it has %v", gaps)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		gaps := m.Gaps()
		if len(gaps) != 1 || gaps[0].State != loop.Failing || !gaps[0].Since.Equal(start.Add(absence)) || !strings.HasSuffix(gaps[0].Reason, "that are gone: not today") {
			t.Errorf("got %v", gaps)
		}
		refusing.set(nil)
		time.Sleep(again)
		synctest.Wait()
		if gaps := m.Gaps(); len(gaps) != 0 {
			t.Errorf("afterwards it has %v", gaps)
		}
		cancel()
		<-done
	})
}

// refusing answers lists with why, while it is set.
type refusing struct {
	client.Interface
	mu  sync.Mutex
	why error // guarded by mu
}

func (r *refusing) set(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = why
}

func (r *refusing) List(ctx context.Context, res client.Resource, namespace string, opts metav1.ListOptions) ([]client.Object, string, error) {
	r.mu.Lock()
	why := r.why
	r.mu.Unlock()
	if why != nil {
		return nil, "", why
	}
	return r.Interface.List(ctx, res, namespace, opts)
}

// A driver that is killed leaves its socket: it counts as absent all the same.
func TestKilledDriver(t *testing.T) {
	r := newRig(t)
	d := r.drivers[0]
	absent := func() bool {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		return !r.m.drivers[d.name].absent.IsZero()
	}
	await := func(want bool) {
		t.Helper()
		for end := time.After(time.Minute); absent() != want; {
			select {
			case <-r.m.wake:
			case <-end:
				t.Fatalf("the driver's absence is not %t", want)
			}
		}
	}
	await(false)
	d.kill()
	if _, err := os.Stat(d.path); err != nil {
		t.Fatal(err)
	}
	await(true)
	d = serve(t, d.name)
	if err := r.m.Register(t.Context(), d.plugin()); err != nil {
		t.Fatal(err)
	}
	await(false)
}
