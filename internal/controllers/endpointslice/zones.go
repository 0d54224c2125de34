package endpointslice

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/controllers"
)

// zones sums up the CPUs of the nodes of each zone, as nodes change.
type zones struct {
	mu    sync.Mutex
	nodes map[string]room // by name; guarded by mu
	sums  map[string]room // by zone; a node without zone or CPU lies under ""; guarded by mu
}

// room is what a node, or the nodes of a zone, have for pods.
type room struct {
	zone  string
	milli int64 // CPU
	nodes int
}

// weights are the CPUs of each zone, in thousandths; nil when they say nothing.
type weights map[string]int64

// put takes in a node as it is now, nil when it is gone, and tells whether any
// weight may have changed by it.
func (z *zones) put(name string, node *corev1.Node) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	had, was := z.nodes[name]
	now, is := roomOf(node)
	if was == is && had == now {
		return false
	}
	if z.nodes == nil {
		z.nodes, z.sums = map[string]room{}, map[string]room{}
	}
	delete(z.nodes, name)
	if was {
		z.addLocked(had, -1)
	}
	if is {
		z.nodes[name] = now
		z.addLocked(now, 1)
	}
	return true
}

func (z *zones) addLocked(r room, sign int) {
	sum := z.sums[r.zone]
	sum.milli += r.milli * int64(sign)
	if sum.nodes += sign; sum.nodes == 0 {
		delete(z.sums, r.zone)
		return
	}
	z.sums[r.zone] = sum
}

// roomOf is what a node has for pods; false when it has no say: it is not
// ready, is for the control plane, or not there.
func roomOf(node *corev1.Node) (room, bool) {
	if node == nil || !controllers.NodeReady(node) {
		return room{}, false
	}
	for _, role := range []string{"control-plane", "master"} {
		if _, ok := node.Labels["node-role.kubernetes.io/"+role]; ok {
			return room{}, false
		}
	}
	zone, milli := zoneOf(node), node.Status.Allocatable.Cpu().MilliValue()
	if zone == "" || milli <= 0 {
		return room{}, true
	}
	return room{zone: zone, milli: milli}, true
}

// weigh returns the weights, or why there are none.
func (z *zones) weigh() (w weights, why string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if _, vague := z.sums[""]; vague {
		return nil, "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
	}
	if len(z.sums) < 2 {
		return nil, "Nodes only ready in one zone"
	}
	w = weights{}
	for zone, sum := range z.sums {
		w[zone] = sum.milli
	}
	return w, ""
}

// byMode indexes the services whose endpoints are spread over zones.
const byMode = "endpointslice.mode"

// auto tells whether a service's endpoints are to be spread over zones by the
// CPUs there. The older of two annotations goes first.
//
// https://kubernetes.io/docs/concepts/services-networking/topology-aware-routing/
func auto(service *corev1.Service) bool {
	mode, ok := service.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !ok {
		mode = service.Annotations[corev1.AnnotationTopologyMode]
	}
	return mode == "Auto" || mode == "auto"
}

// zonesChanged looks at the services to which the weights matter.
func (c *Controller) zonesChanged() {
	for _, service := range c.backends.Services.ByIndex(byMode, "auto") {
		c.lookSoon(controllers.KeyOf(service))
	}
}

// names of the zones, in order.
func (w weights) names() []string { return slices.Sorted(maps.Keys(w)) }

func (w weights) total() (sum int64) {
	for _, milli := range w {
		sum += milli
	}
	return sum
}
