package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

const gpuDriver = "gpu.example.com"

// slice publishes devices of a node: "name model".
func slice(node string, devices ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"}, Spec: resourcev1.ResourceSliceSpec{Driver: gpuDriver,
		Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, NodeName: &node}}
	for _, d := range devices {
		name, model, _ := strings.Cut(d, " ")
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}}})
	}
	return s
}

func gpuClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
		CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}}}
}

// gpuClaim asks for devices of a model; "": any.
func gpuClaim(name string, count int64, model string) *resourcev1.ResourceClaim {
	r := resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}
	if model != "" {
		r.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf(`device.attributes["gpu.example.com"].model == %q`, model)}}}
	}
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &r}}}}}
}

func claiming(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i, name := range names {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprint("c", i), ResourceClaimName: &name})
		}
	}
}

// has tells which devices a claim has, and for which pods.
func (w *world) has(name string) string {
	w.Helper()
	c, err := client.Get[*resourcev1.ResourceClaim](w.Context(), w.client, client.ResourceClaims, "default", name)
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	if c.Status.Allocation != nil {
		for _, r := range c.Status.Allocation.Devices.Results {
			out = append(out, r.Pool+"/"+r.Device)
		}
	}
	for _, r := range c.Status.ReservedFor {
		out = append(out, "for "+r.Name)
	}
	return strings.Join(out, " ")
}

// Devices are allocated where they are, by expressions, and nobody gets one
// twice.
func TestAllocatesDevices(t *testing.T) {
	story(t, nil, func(w *world) {
		w.node("a", "8")
		w.node("b", "8")
		w.pod("p", "1", claiming("one"))
		w.refused("p", `0/2 nodes are available: resourceclaim "one" not found. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.`)
		w.create(client.ResourceClaims, gpuClaim("one", 1, "big"))
		w.refused("p", "0/2 nodes are available: request gpu: device class gpu does not exist.")
		w.create(client.DeviceClasses, gpuClass())
		w.refused("p", "0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
		w.create(client.ResourceSlices, slice("a", "a0 small", "a1 small"))
		w.create(client.ResourceSlices, slice("b", "b0 big", "b1 small"))
		time.Sleep(time.Minute)
		w.expect("b has the model", "p=b")
		if got := w.has("one"); got != "b/b0 for p" {
			w.Errorf("one has %s", got)
		}
		w.create(client.ResourceClaims, gpuClaim("two", 2, "small"))
		w.pod("q", "1", claiming("two"))
		w.expect("a has two of them", "p=b q=a")
		w.create(client.ResourceClaims, gpuClaim("three", 2, ""))
		w.pod("r", "1", claiming("three"))
		w.refused("r", "0/2 nodes are available: 2 cannot allocate all claims.")
		w.pod("with", "1", claiming("one"))
		w.expect("a claim is shared where it is", "p=b q=a r= with=b")
		if got := w.has("one"); got != "b/b0 for p for with" {
			w.Errorf("one has %s", got)
		}
		// Its pod is gone, and its devices taken back.
		w.delete(client.Pods, "default", "q")
		change(w, client.ResourceClaims, "default", "two", func(c *resourcev1.ResourceClaim) { c.Status = resourcev1.ResourceClaimStatus{} }, "status")
		time.Sleep(time.Minute)
		w.expect("devices came free", "p=b r=a with=b")
	})
}

// Many pods and few devices, at once: each device has one claim at most.
func TestNoDeviceTwice(t *testing.T) {
	story(t, nil, func(w *world) {
		w.create(client.DeviceClasses, gpuClass())
		for _, n := range []string{"a", "b", "c"} {
			w.node(n, "80")
			w.create(client.ResourceSlices, slice(n, "g0 big", "g1 big"))
		}
		synctest.Wait()
		for i := range 10 {
			name := fmt.Sprint("p", i)
			w.create(client.ResourceClaims, gpuClaim(name, 1, ""))
			w.pod(name, "1", claiming(name))
		}
		time.Sleep(time.Minute)
		had := map[string]string{}
		placed := 0
		for i := range 10 {
			name := fmt.Sprint("p", i)
			got := w.has(name)
			if got == "" {
				continue
			}
			placed++
			device, _, _ := strings.Cut(got, " ")
			if other := had[device]; other != "" {
				w.Errorf("%s and %s have %s", name, other, device)
			}
			had[device] = name
		}
		if placed != 6 || strings.Count(w.pods(), "=a")+strings.Count(w.pods(), "=b")+strings.Count(w.pods(), "=c") != 6 {
			w.Errorf("%d are allocated: %s", placed, w.pods())
		}
	})
}

// A device with a taint is given to nobody who does not tolerate it; a claim
// that has devices where its pod cannot be gets others.
func TestTaintedAndStuckDevices(t *testing.T) {
	story(t, nil, func(w *world) {
		w.create(client.DeviceClasses, gpuClass())
		w.node("a", "8")
		w.node("b", "8")
		w.create(client.ResourceSlices, slice("a", "a0 big"))
		w.create(client.DeviceTaintRules, &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "sick"}, Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new(gpuDriver), Pool: new("a")},
			Taint:          resourcev1.DeviceTaint{Key: "example.com/sick", Effect: resourcev1.DeviceTaintEffectNoSchedule}}})
		synctest.Wait()
		w.create(client.ResourceClaims, gpuClaim("one", 1, ""))
		w.pod("p", "1", claiming("one"))
		w.refused("p", "0/2 nodes are available: 2 cannot allocate all claims.")
		if err := w.client.Delete(w.Context(), client.DeviceTaintRules, "", "sick", metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.expect("the taint is gone", "p=a")

		// As if a scheduler had ended after it allocated and before it bound.
		w.create(client.ResourceSlices, slice("b", "b0 big"))
		w.delete(client.Pods, "default", "p")
		change(w, client.Nodes, "", "a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		change(w, client.ResourceClaims, "default", "one", func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil }, "status")
		w.pod("q", "1", claiming("one"))
		time.Sleep(time.Minute)
		w.expect("elsewhere", "q=b")
		if got := w.has("one"); got != "b/b0 for q" {
			w.Errorf("one has %s", got)
		}
	})
}
