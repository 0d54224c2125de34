// Package simnode runs simulated nodes: Node objects that keep their leases
// and statuses as a kubelet does, and whose pods go through their phases
// without containers. Thousands of them fit into one process: there is no
// goroutine per node or pod, and a pod costs one status write to run and one
// delete to end.
//
// Use: New(Options{Client: c, Count: 1000}), then Run. Annotations steer what is
// simulated:
//
//	setpoint.dev/sim-silent: "true"      on a node: no heartbeats, nothing done
//	                                     for its pods, as if it had lost its network
//	setpoint.dev/sim-exit-after: "5s"    on a pod: its containers end that long
//	                                     after they started
//	setpoint.dev/sim-exit-code: "1"      on a pod: ... with that code; 0 by default
//	setpoint.dev/sim-not-ready: "true"   on a pod: it runs but is never Ready
//	setpoint.dev/sim-cpu: "250m"         on a pod: the CPU that it uses, or that
//	                                     each container does: "app=200m,proxy=50m"
//	setpoint.dev/sim-memory: "64Mi"      on a pod: the same for its memory
//	setpoint.dev/sim-load: "2"           on a pod: the CPU that all ready pods with
//	                                     the same controller use together
//
// Kubelets tells what the pods use, in place of the kubelets that are not there.
//
// Volumes of the built-in storage lie on simulated nodes as on others, but for
// their folders.
//
// Concurrency: three loops (nodes, pods, volumes) with a bounded number of
// workers each.
//
// Failure: everything is read from the API, so that a process that takes over
// carries on with the pods that run. A node that somebody deletes is not made
// again until the next start.
//
// Testing: the next step for a pod and for a node is decided by pure functions
// (podStep, nodeStatus); the whole runs in a synctest bubble.
package simnode

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/loop"
)

// The annotations that steer the simulation.
const (
	Silent    = "setpoint.dev/sim-silent"
	ExitAfter = "setpoint.dev/sim-exit-after"
	ExitCode  = "setpoint.dev/sim-exit-code"
	NotReady  = "setpoint.dev/sim-not-ready"
)

// Options of the simulated nodes.
type Options struct {
	Client client.Interface
	Logger *slog.Logger // nil: no log
	Count  int          // of nodes, named Prefix and a number from 0
	Prefix string       // "" means "sim-"
	CPU    string       // of each node; "" means "32"
	Memory string       // "" means "256Gi"
	Pods   int          // how many a node takes; 0 means 110
	Labels map[string]string
	// Addresses is where nodes get their addresses from (the first half), and
	// pods on nodes that have no podCIDR (the second). Nothing answers there.
	// "" means 198.18.0.0/15, which is set aside for benchmarks of networks.
	Addresses string
	// Version is what the nodes say their kubelet's is; "" means v1.37.2.
	Version string
	Workers int // writes for pods at the same time; 0 means 64
	// Observer, when not nil, is told each outcome. It must be quick.
	Observer func(loop string, key loop.Key, o loop.Outcome, err error)
}

// Validate completes the options and says what is wrong with them.
func (o *Options) Validate() error {
	defaults := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	defaults(&o.Prefix, "sim-")
	defaults(&o.CPU, "32")
	defaults(&o.Memory, "256Gi")
	defaults(&o.Addresses, "198.18.0.0/15")
	defaults(&o.Version, "v1.37.2")
	if o.Pods == 0 {
		o.Pods = 110
	}
	if o.Workers == 0 {
		o.Workers = 64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for field, v := range map[string]string{"CPU": o.CPU, "Memory": o.Memory} {
		if _, err := resource.ParseQuantity(v); err != nil {
			return fmt.Errorf("simnode: %s %q: %w", field, v, err)
		}
	}
	if _, err := netip.ParsePrefix(o.Addresses); err != nil {
		return fmt.Errorf("simnode: Addresses: %w", err)
	}
	return nil
}

// amounts are what each node has; the options must be valid.
func (o *Options) amounts() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(o.CPU),
		corev1.ResourceMemory:           resource.MustParse(o.Memory),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             *resource.NewQuantity(int64(o.Pods), resource.DecimalSI),
	}
}

// Nodes are simulated nodes, wired.
type Nodes struct {
	opts        Options
	nodes, pods client.View
	nodeLoop    *loop.Loop
	podLoop     *loop.Loop
	keeper      *localpath.Keeper
	addresses   places
	amounts     corev1.ResourceList // that each node has

	mu    sync.Mutex
	known map[string]*beat // by node name; guarded by mu
}

// New makes simulated nodes; Run runs them.
func New(opts Options) (*Nodes, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Nodes{
		opts:      opts,
		nodes:     opts.Client.View(client.Nodes, client.ViewOptions{}),
		pods:      opts.Client.View(client.Pods, client.ViewOptions{}),
		addresses: newPlaces(netip.MustParsePrefix(opts.Addresses)),
		known:     make(map[string]*beat, opts.Count),
		amounts:   opts.amounts(),
	}
	s.nodeLoop = loop.New(loop.Options{Name: "simnode", Reconcile: s.lookAtNode, Workers: 16, Logger: opts.Logger})
	s.podLoop = loop.New(loop.Options{Name: "simnodepod", Reconcile: s.lookAtPod, Workers: opts.Workers, Logger: opts.Logger})
	s.keeper = localpath.NewKeeper(localpath.KeeperOptions{
		Client: opts.Client, Folder: volumesFolder, Disk: localpath.Nowhere{}, Nodes: func(name string) bool { return s.beat(name) != nil }, Logger: opts.Logger,
	})
	for i := range opts.Count {
		s.known[s.nodeName(i)] = &beat{index: i}
	}
	return s, nil
}

// Name of the loop.
func (s *Nodes) Name() string { return "simnode" }

// Gaps lists the nodes and pods that are not as they should be.
func (s *Nodes) Gaps() []loop.Gap {
	return slices.Concat(s.nodeLoop.Gaps(), s.podLoop.Gaps(), s.keeper.Gaps())
}

// Run keeps the nodes until ctx ends. The Node objects stay.
func (s *Nodes) Run(ctx context.Context) error {
	client.IndexByNode(s.pods)
	for _, v := range []client.View{s.nodes, s.pods} {
		if err := v.WaitSynced(ctx); err != nil {
			return err
		}
	}
	for name := range s.known {
		s.nodeLoop.Look(loop.Key{Name: name})
	}
	defer s.nodes.Handle(s.nodeChanged)()
	defer s.pods.Handle(s.podChanged)()
	var wg sync.WaitGroup
	wg.Go(func() { s.nodeLoop.Run(ctx) })
	wg.Go(func() { s.podLoop.Run(ctx) })
	wg.Go(func() { s.keeper.Run(ctx) })
	wg.Wait()
	return context.Cause(ctx)
}

func (s *Nodes) nodeName(i int) string { return fmt.Sprintf("%s%d", s.opts.Prefix, i) }

func (s *Nodes) nodeChanged(old, new client.Object) {
	if new == nil && s.nodeLoop.Open(keyOf(old)) {
		s.nodeLoop.Look(keyOf(old)) // it is waited for no more
	}
	node, ok := new.(*corev1.Node)
	if !ok || s.beat(node.Name) == nil {
		return
	}
	before, _ := old.(*corev1.Node)
	if before != nil && silent(before) == silent(node) && slices.Equal(before.Spec.PodCIDRs, node.Spec.PodCIDRs) && readyStatus(before) == readyStatus(node) {
		return // our own heartbeat, most likely
	}
	s.nodeLoop.Look(loop.Key{Name: node.Name})
	if before == nil || silent(before) != silent(node) || readyStatus(before) != readyStatus(node) {
		for _, pod := range s.pods.ByIndex(client.ByNode, node.Name) {
			s.podLoop.Look(keyOf(pod))
		}
	}
}

func (s *Nodes) podChanged(old, new client.Object) {
	if new == nil {
		s.addresses.release(keyOf(old))
		if s.podLoop.Open(keyOf(old)) {
			s.podLoop.Look(keyOf(old)) // it is waited for no more
		}
		return
	}
	if pod, ok := new.(*corev1.Pod); ok && pod.Spec.NodeName != "" && s.beat(pod.Spec.NodeName) != nil {
		s.podLoop.Look(keyOf(pod))
	}
}

func keyOf(obj client.Object) loop.Key {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func silent(node *corev1.Node) bool { return node.Annotations[Silent] == "true" }

func (s *Nodes) beat(name string) *beat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[name]
}
