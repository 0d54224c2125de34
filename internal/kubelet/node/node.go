// Package node tells the API server of this node: the Node object with what
// the machine has and how it is, and the lease that says that it is alive.
//
// The node's status is looked at every 10 s and written when it changed, else
// every 5 minutes; the lease is renewed every 10 s. See
// https://kubernetes.io/docs/concepts/architecture/nodes/#heartbeats.
//
// Concurrency: Run is one goroutine for the status and one for the lease; all
// methods may be called from many.
//
// Failure: what cannot be written is tried again, sooner.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// Resource is that of nodes.
var Resource = v1.SchemeGroupVersion.WithResource("nodes")

const (
	lookEvery  = 10 * time.Second
	writeEvery = 5 * time.Minute
	// While the node is not ready it is looked at more often: people wait.
	lookSoon = 200 * time.Millisecond
)

// Events is where a Reporter tells what happens to the node.
type Events interface {
	Node(kind, reason, format string, args ...any)
}

// Options of a Reporter.
type Options struct {
	Name    string
	Client  client.Interface
	Runtime cri.Runtime
	IPs     []netip.Addr
	Port    int
	MaxPods int
	Labels  map[string]string
	Taints  []v1.Taint
	RootDir string
	Logger  *slog.Logger
	Events  Events
}

// Reporter reports one node.
type Reporter struct {
	opts    Options
	machine Machine

	mu      sync.Mutex
	node    *v1.Node // guarded by mu; as the API server last answered
	version *runtimeapi.VersionResponse
	written time.Time
	problem problem // guarded by mu
}

// New makes a Reporter.
func New(o Options) *Reporter { return &Reporter{opts: o, machine: inspect(o.RootDir)} }

// Memory of the machine in bytes.
func (r *Reporter) Memory() int64 { return r.machine.Memory }

// Allocatable is what pods may use.
func (r *Reporter) Allocatable() v1.ResourceList { return r.machine.Resources(r.opts.MaxPods) }

// Node is the node as the API server last answered, or nil.
func (r *Reporter) Node() *v1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.node
}

// Ask asks the runtime who it is.
func (r *Reporter) Ask(ctx context.Context) error {
	v, err := r.opts.Runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = v
	return nil
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { r.renew(ctx) })
	r.opts.Events.Node(v1.EventTypeNormal, "Starting", "Starting kubelet.")
	ready := false
	for {
		ok, err := r.Look(ctx)
		if err != nil && ctx.Err() == nil {
			r.opts.Logger.Info("node not reported", "node", r.opts.Name, "error", err)
		}
		if ok && !ready {
			r.opts.Events.Node(v1.EventTypeNormal, "NodeReady", "Node %s status is now: NodeReady", r.opts.Name)
		}
		ready = ok
		wait := lookEvery
		if !ok || err != nil {
			wait = lookSoon
		}
		select {
		case <-ctx.Done():
			wg.Wait()
			return
		case <-time.After(wait):
		}
	}
}

// Look compares the node with what the API server shows, and writes what
// differs. ready tells whether the node is.
func (r *Reporter) Look(ctx context.Context) (ready bool, err error) {
	have, err := r.get(ctx)
	if err != nil {
		return false, err
	}
	status := r.status(ctx, have)
	ready = condition(status.Conditions, v1.NodeReady).Status == v1.ConditionTrue
	if have, err = r.meta(ctx, have); err != nil {
		return ready, err
	}
	if same(&have.Status, status) && time.Since(r.written) < writeEvery {
		return ready, nil
	}
	now := have.DeepCopy()
	now.Status = *status
	o, err := r.opts.Client.Update(ctx, Resource, now, "status")
	if err != nil {
		return ready, err
	}
	r.keep(o)
	r.written = time.Now()
	return ready, nil
}

func (r *Reporter) keep(o client.Object) {
	if n, ok := o.(*v1.Node); ok {
		r.mu.Lock()
		r.node = n
		r.mu.Unlock()
	}
}

// get is the node, registered if it is not there.
func (r *Reporter) get(ctx context.Context) (*v1.Node, error) {
	o, err := r.opts.Client.Get(ctx, Resource, "", r.opts.Name)
	if apierrors.IsNotFound(err) {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.opts.Name, Labels: r.labels(), Annotations: map[string]string{volumes.ControllerManaged: "true"}}}
		n.Spec.Taints = r.opts.Taints
		n.Status = *r.status(ctx, n)
		if o, err = r.opts.Client.Create(ctx, Resource, n); err == nil {
			r.opts.Events.Node(v1.EventTypeNormal, "RegisteredNode", "Node %s registered", r.opts.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	n, ok := o.(*v1.Node)
	if !ok {
		return nil, fmt.Errorf("the API server answered for a node with %T", o)
	}
	r.keep(n)
	return n, nil
}

// meta sees to the labels and annotations that are the kubelet's to set.
func (r *Reporter) meta(ctx context.Context, have *v1.Node) (*v1.Node, error) {
	var now *v1.Node
	for k, v := range r.labels() {
		if have.Labels[k] == v {
			continue
		}
		if now == nil {
			now = have.DeepCopy()
			if now.Labels == nil {
				now.Labels = map[string]string{}
			}
		}
		now.Labels[k] = v
	}
	// Attaching volumes is left to package attachdetach.
	if have.Annotations[volumes.ControllerManaged] != "true" {
		if now == nil {
			now = have.DeepCopy()
		}
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, volumes.ControllerManaged, "true")
	}
	if now == nil {
		return have, nil
	}
	o, err := r.opts.Client.Update(ctx, Resource, now)
	if err != nil {
		return have, err
	}
	r.keep(o)
	return o.(*v1.Node), nil
}

func (r *Reporter) labels() map[string]string {
	l := map[string]string{
		v1.LabelHostname:          r.opts.Name,
		v1.LabelOSStable:          r.machine.OS,
		v1.LabelArchStable:        r.machine.Arch,
		"beta.kubernetes.io/os":   r.machine.OS,
		"beta.kubernetes.io/arch": r.machine.Arch,
	}
	for k, v := range r.opts.Labels {
		l[k] = v
	}
	return l
}

// same tells whether two statuses differ in nothing but when they were seen.
func same(a, b *v1.NodeStatus) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	for _, s := range []*v1.NodeStatus{x, y} {
		for i := range s.Conditions {
			s.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return equality.Semantic.DeepEqual(x, y)
}
