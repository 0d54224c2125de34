// Package devices tells on which nodes a pod may be for the sake of its
// ResourceClaims, allocates devices to those that have none, and writes that.
//
//	            Of(pod)               Refuses(node)              Choose(node)
//	pod, views --------> Needs, once --------------> per node, ---------------> Choice
//	                     an attempt                  remembered                  |
//	                                  Hold: nobody else gets the devices, Write <
//
// This is upstream's DynamicResources. The choice of devices for one node is
// upstream's own library's, with its expressions, constraints and counters.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
//
// Cost: for a node the library sees the slices of that node and those of no
// node in particular, and the devices that are taken in their pools; claims are
// found by pool.
//
// Concurrency: a Catalog belongs to one goroutine, but for Write, which reads
// only what it is given.
//
// Failure: a claim that was allocated for a pod that then was not bound keeps
// its devices. When it keeps the pod from every node it is taken back (see
// Needs.Stuck); when the pod goes, the resourceclaim loop takes it back.
package devices

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/devicetaints"
)

// features are those that are generally available in Kubernetes 1.37, and that
// the library calls stable.
var features = structured.Features{AdminAccess: true, DeviceTaints: true, PartitionableDevices: true, PrioritizedList: true}

const (
	byNode = "node" // of slices; those of no node in particular under ""
	byPool = "pool" // of claims: where their devices are
)

// Catalog is what there is of devices, and who has them.
type Catalog struct {
	claims, slices client.View
	classes, rules client.View

	held map[types.UID]*hold // claims that are being allocated
	// expressions are compiled once; nil until there is one: it costs what few
	// clusters need.
	expressions *cel.Cache
	tainted     map[string]tainted // slices with the taints of rules, by name
	ruled       uint64             // how often rules have changed
}

// hold is an allocation that is being written.
type hold struct {
	allocation *resourcev1.AllocationResult
	users      int
}

type tainted struct {
	from  *resourcev1.ResourceSlice
	ruled uint64
	slice *resourcev1.ResourceSlice
}

// New makes a catalog over the views of a client.
func New(c client.Interface) *Catalog {
	all := client.ViewOptions{}
	cat := &Catalog{claims: c.View(client.ResourceClaims, all), slices: c.View(client.ResourceSlices, all),
		classes: c.View(client.DeviceClasses, all), rules: c.View(client.DeviceTaintRules, all),
		held: map[types.UID]*hold{}, tainted: map[string]tainted{}}
	cat.slices.Index(byNode, func(obj client.Object) []string {
		s, ok := obj.(*resourcev1.ResourceSlice)
		if !ok {
			return nil
		}
		if s.Spec.NodeName != nil {
			return []string{*s.Spec.NodeName}
		}
		return []string{""}
	})
	cat.claims.Index(byPool, func(obj client.Object) []string {
		c, ok := obj.(*resourcev1.ResourceClaim)
		if !ok || c.Status.Allocation == nil {
			return nil
		}
		var pools []string
		for i := range c.Status.Allocation.Devices.Results {
			r := &c.Status.Allocation.Devices.Results[i]
			pools = append(pools, poolKey(r.Driver, r.Pool))
		}
		slices.Sort(pools)
		return slices.Compact(pools)
	})
	return cat
}

// Views are what a catalog reads. A change of any may let a pod fit; Changed
// tells which.
func (cat *Catalog) Views() []client.View {
	return []client.View{cat.claims, cat.slices, cat.classes, cat.rules}
}

// Changed names what a change of an object may help, by the names that Needs.On
// has. The owner of the catalog calls it for each change of a view.
func (cat *Catalog) Changed(old, new client.Object) (helps []string) {
	present := new
	if present == nil {
		present = old
	}
	switch o := present.(type) {
	case *resourcev1.ResourceClaim:
		helps = append(helps, onClaim(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}))
		if was, ok := old.(*resourcev1.ResourceClaim); ok && was.Status.Allocation != nil && (new == nil || o.Status.Allocation == nil) {
			helps = append(helps, onFree)
		}
	case *resourcev1.ResourceSlice:
		helps = append(helps, onSlices)
		if new == nil {
			delete(cat.tainted, o.Name)
		}
	case *resourcev1.DeviceTaintRule:
		helps = append(helps, onSlices)
		cat.ruled++
	case *resourcev1.DeviceClass:
		helps = append(helps, onClass(o.Name))
	}
	return helps
}

// What a pod can wait for, as Needs.On names it. These are read by people.
const (
	onSlices = "a ResourceSlice or DeviceTaintRule"
	onFree   = "a device that comes free"
)

func onClaim(key types.NamespacedName) string { return "ResourceClaim " + key.String() }
func onClass(name string) string              { return "DeviceClass " + name }

func poolKey(driver, pool string) string { return driver + "/" + pool }

// allocator makes the library's allocator for a node.
func (cat *Catalog) allocatorFor(n *Needs, node *corev1.Node) (structured.Allocator, error) {
	if cat.expressions == nil {
		cat.expressions = cel.NewCache(500, cel.Features{})
	}
	if !n.looked {
		n.shared, n.looked = cat.slicesOf(""), true
	}
	own := cat.slicesOf(node.Name)
	all := append(own, n.shared...)
	taken := sets.New[structured.DeviceID]()
	for _, s := range all {
		cat.addTaken(taken, s.Spec.Driver, s.Spec.Pool.Name)
	}
	return structured.NewAllocator(n.ctx, features, structured.AllocatedState{AllocatedDevices: taken,
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection()},
		classes{cat.classes}, all, cat.expressions)
}

// slicesOf are the slices of a node, with the taints of rules.
func (cat *Catalog) slicesOf(node string) []*resourcev1.ResourceSlice {
	found := client.Indexed[*resourcev1.ResourceSlice](cat.slices, byNode, node)
	rules := client.Listed[*resourcev1.DeviceTaintRule](cat.rules, "")
	for i, s := range found {
		if len(rules) == 0 {
			break
		}
		had := cat.tainted[s.Name]
		if had.from != s || had.ruled != cat.ruled {
			had = tainted{from: s, ruled: cat.ruled, slice: devicetaints.Tainted(s, rules)}
			cat.tainted[s.Name] = had
		}
		found[i] = had.slice
	}
	slices.SortFunc(found, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// addTaken adds the devices of a pool that claims have.
func (cat *Catalog) addTaken(taken sets.Set[structured.DeviceID], driver, pool string) {
	add := func(a *resourcev1.AllocationResult) {
		for i := range a.Devices.Results {
			r := &a.Devices.Results[i]
			if r.AdminAccess != nil && *r.AdminAccess {
				continue // administrators look at what is another's
			}
			taken.Insert(structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	for _, c := range client.Indexed[*resourcev1.ResourceClaim](cat.claims, byPool, poolKey(driver, pool)) {
		add(c.Status.Allocation)
	}
	for _, h := range cat.held {
		if h.allocation != nil {
			add(h.allocation)
		}
	}
}

// classes is the library's lister over a view.
type classes struct{ client.View }

func (c classes) List() ([]*resourcev1.DeviceClass, error) {
	return client.Listed[*resourcev1.DeviceClass](c.View, ""), nil
}

func (c classes) Get(name string) (*resourcev1.DeviceClass, error) {
	if class := client.In[*resourcev1.DeviceClass](c.View, "", name); class != nil {
		return class, nil
	}
	return nil, errors.NewNotFound(client.DeviceClasses.GroupResource(), name)
}
