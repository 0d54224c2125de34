package kubelet_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	draapi "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// lamp is a DRA driver whose one device is a variable of the environment.
type lamp struct {
	draapi.UnimplementedDRAPluginServer
	registerapi.UnimplementedRegistrationServer
	endpoint string

	// look tells how the pod that ends is doing.
	look func() v1.PodPhase

	mu    sync.Mutex
	calls []string // guarded by mu
}

const lampDriver = "lamp.setpoint.test"

func (l *lamp) call(what string, claims []*draapi.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range claims {
		l.calls = append(l.calls, what+" "+c.Namespace+"/"+c.Name)
	}
}

func (l *lamp) said() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

func (l *lamp) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.DRAPlugin, Name: lampDriver, Endpoint: l.endpoint, SupportedVersions: []string{draapi.DRAPluginService}}, nil
}

func (l *lamp) NotifyRegistrationStatus(context.Context, *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	return &registerapi.RegistrationStatusResponse{}, nil
}

func (l *lamp) NodePrepareResources(_ context.Context, q *draapi.NodePrepareResourcesRequest) (*draapi.NodePrepareResourcesResponse, error) {
	l.call("prepare", q.Claims)
	out := &draapi.NodePrepareResourcesResponse{Claims: map[string]*draapi.NodePrepareResourceResponse{}}
	for _, c := range q.Claims {
		out.Claims[c.Uid] = &draapi.NodePrepareResourceResponse{Devices: []*draapi.Device{
			{RequestNames: []string{"bulb"}, PoolName: "n1", DeviceName: "bulb", CdiDeviceIds: []string{lampDriver + "/bulb=bright"}}}}
	}
	return out, nil
}

func (l *lamp) NodeUnprepareResources(_ context.Context, q *draapi.NodeUnprepareResourcesRequest) (*draapi.NodeUnprepareResourcesResponse, error) {
	what := "unprepare"
	if phase := l.look(); phase != v1.PodRunning {
		what += " of a pod that is " + string(phase) + ","
	}
	l.call(what, q.Claims)
	out := &draapi.NodeUnprepareResourcesResponse{Claims: map[string]*draapi.NodeUnprepareResourceResponse{}}
	for _, c := range q.Claims {
		out.Claims[c.Uid] = &draapi.NodeUnprepareResourceResponse{}
	}
	return out, nil
}

// serve starts the driver; what it serves lies where drivers think the
// kubelet's folder is, and it registers by a socket of its own.
func (l *lamp) serve(t testing.TB, root string) {
	t.Helper()
	l.endpoint = "/var/lib/kubelet/plugins/lamp/dra.sock"
	server := grpc.NewServer()
	draapi.RegisterDRAPluginServer(server, l)
	registerapi.RegisterRegistrationServer(server, l)
	t.Cleanup(server.Stop)
	for _, path := range []string{"plugins/lamp/dra.sock", "plugins_registry/lamp.sock"} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		go server.Serve(listener)
	}
}

// A pod that claims a device waits until it may have it, gets it from the
// node's driver, keeps it over a restart of the kubelet and gives it back.
func devices(r *rig) {
	t := r.t
	// Where the runtime looks for devices, and drivers tell of them.
	spec := filepath.Join("/var/run/cdi", fmt.Sprintf("setpoint-test-%d.json", os.Getpid()))
	if err := os.MkdirAll(filepath.Dir(spec), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(spec) })
	if err := os.WriteFile(spec, fmt.Appendf(nil, `{"cdiVersion": "0.6.0", "kind": "%s/bulb", "devices": [
		{"name": "bright", "containerEdits": {"env": ["LIGHT=bright"]}}]}`, lampDriver), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	o, err := r.client.Create(ctx, client.ResourceClaims, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "light"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "bulb", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "lamp"}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	p := r.pod("lit", `
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: l, resourceClaimName: light}]
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, 'echo light is $LIGHT; `+strings.Trim(forever, "'")+`'], resources: {claims: [{name: l}]}}
  - {name: dark, image: setpoint.test/box:1, command: [sh, -c, 'echo light is $LIGHT; `+strings.Trim(forever, "'")+`']}
`)
	r.wait("the pod says that the claim is not its own", func() bool {
		return slices.ContainsFunc(r.events("lit"), func(e string) bool {
			return strings.HasPrefix(e, "FailedPrepareDynamicResources: ") && strings.Contains(e, "is not allowed to use resource claim light(")
		})
	})
	c := o.(*resourcev1.ResourceClaim).DeepCopy()
	c.Status = resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "bulb", Driver: lampDriver, Pool: "n1", Device: "bulb"}}}},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}},
	}
	if _, err := r.client.Update(ctx, client.ResourceClaims, c, "status"); err != nil {
		t.Fatal(err)
	}
	r.wait("the pod says that there is no driver", func() bool {
		return slices.ContainsFunc(r.events("lit"), func(e string) bool { return strings.Contains(e, "DRA driver "+lampDriver+" is not registered") })
	})
	l := &lamp{look: func() v1.PodPhase { return r.get("lit").Status.Phase }}
	l.serve(t, r.opts.RootDir)
	p = r.await("lit", "ready", ready)
	r.logged(p, "main", 0, "light is bright\n")
	r.logged(p, "dark", 0, "light is\n")
	if got := l.said(); !slices.Equal(got, []string{"prepare default/light"}) {
		t.Errorf("the driver was asked to %q", got)
	}
	r.halt()
	r.stopContainer(p, 0)
	r.start()
	r.await("lit", "restarted", func(p *v1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	r.logged(p, "main", 1, "light is bright\n")
	r.delete("lit", nil)
	r.await("lit", "gone", gone)
	if got := l.said(); !slices.Equal(got, []string{"prepare default/light", "unprepare default/light"}) {
		t.Errorf("in all the driver was asked to %q", got)
	}
	r.leftNothing(p)
}
