// Package nodelifecycle gives up nodes that have fallen silent, and takes
// them back when they speak again.
//
//	lease not renewed, status not posted for 40 s
//	  -> conditions Unknown -> taints unreachable -> pods Ready=False
//	                                 |-> pods evicted, each after its tolerationSeconds
//	condition not ready, under pressure; cordoned -> taints
//
// Use: New(options).Run(ctx). It is two loops: over nodes, and over the pods
// of nodes that are not well.
//
// Concurrency: as package loop; when a node was heard of is under a lock.
//
// Failure: when a pod has to go is worked out from the time written in the
// taint, so that a restart does not begin to count anew. A restart does give
// every node 40 more seconds, for only a change tells that a node lives,
// whatever its clock says.
//
// Cost: a node that renews its lease is looked at once in 40 s, by its due
// time; nothing else is polled.
package nodelifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "nodelifecycle"

// allKey asks for a look at every node that is not ready: how many are decides
// whose turn it is to be given up.
var allKey = loop.Key{}

// Controller is the loop, wired.
type Controller struct {
	client client.Interface
	events client.Recorder

	nodes, leases, pods client.View
	nodeLoop, podLoop   *loop.Loop
	written             controllers.Written
	heartbeats          heartbeats

	mu     sync.Mutex
	gaveUp map[string]time.Time // by zone, when it last gave up a node; guarded by mu
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client: opts.Client,
		events: opts.Recorder(),
		nodes:  opts.Client.View(client.Nodes, client.ViewOptions{}),
		leases: opts.Client.View(client.Leases, client.ViewOptions{Namespace: corev1.NamespaceNodeLease}),
		pods:   opts.Client.View(client.Pods, client.ViewOptions{}),
		gaveUp: map[string]time.Time{},
	}
	client.IndexByNode(c.pods)
	c.nodeLoop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	c.podLoop = controllers.NewLoop(opts, "tainteviction", 8, c.reconcilePod)
	return c
}

// Name of the loop.
func (c *Controller) Name() string { return Name }

// Gaps lists the nodes that are given up and the pods that have to leave.
func (c *Controller) Gaps() []loop.Gap { return append(c.nodeLoop.Gaps(), c.podLoop.Gaps()...) }

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		cancel(controllers.Run(ctx, c.podLoop, controllers.Input{View: c.nodes}, controllers.Input{View: c.pods, Changed: c.podChanged}))
	})
	return controllers.Run(ctx, c.nodeLoop,
		controllers.Input{View: c.leases, Changed: c.leaseChanged},
		controllers.Input{View: c.nodes, Changed: c.nodeChanged})
}

func (c *Controller) leaseChanged(_, new client.Object) {
	lease, ok := new.(*coordinationv1.Lease)
	if !ok {
		return
	}
	node := client.In[*corev1.Node](c.nodes, "", lease.Name)
	if node == nil {
		return
	}
	c.heartbeats.note(lease.Name, node, lease, time.Now())
	if ready(node) == corev1.ConditionUnknown {
		c.nodeLoop.Look(loop.Key{Name: lease.Name})
	}
}

func (c *Controller) nodeChanged(old, new client.Object) {
	before, _ := old.(*corev1.Node)
	node, _ := new.(*corev1.Node)
	if node == nil {
		c.heartbeats.forget(before.Name)
		c.nodeLoop.Look(allKey)
		for _, pod := range c.pods.ByIndex(client.ByNode, before.Name) {
			if key := controllers.KeyOf(pod); c.podLoop.Open(key) {
				c.podLoop.Look(key) // it is not evicted any more
			}
		}
		return
	}
	c.nodeLoop.Look(loop.Key{Name: node.Name})
	if before != nil && ready(before) == ready(node) && sameTaints(before.Spec.Taints, node.Spec.Taints) {
		return // a heartbeat: its pods are as well as before
	}
	c.nodeLoop.Look(allKey)
	if well(node) && (before == nil || well(before)) {
		return
	}
	for _, pod := range c.pods.ByIndex(client.ByNode, node.Name) {
		c.podLoop.Look(controllers.KeyOf(pod))
	}
}

// podChanged looks at the pods of nodes that are not well.
func (c *Controller) podChanged(_, new client.Object) {
	pod, ok := new.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if node := client.In[*corev1.Node](c.nodes, "", pod.Spec.NodeName); node != nil && !well(node) {
		c.podLoop.Look(controllers.KeyOf(pod))
	}
}

// well tells that a node's pods are no business of ours.
func well(node *corev1.Node) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Effect == corev1.TaintEffectNoExecute {
			return false
		}
	}
	return ready(node) != corev1.ConditionUnknown
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if key == allKey {
		for _, node := range client.Listed[*corev1.Node](c.nodes, "") {
			if ready(node) != corev1.ConditionTrue {
				c.nodeLoop.Look(controllers.KeyOf(node))
			}
		}
		return loop.Done(), nil
	}
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	node := client.In[*corev1.Node](c.nodes, "", key.Name)
	if node == nil {
		return loop.Done(), nil
	}
	now := time.Now()
	c.heartbeats.untaint(node)
	lease := client.In[*coordinationv1.Lease](c.leases, corev1.NamespaceNodeLease, key.Name)
	at, due := c.heartbeats.note(key.Name, node, lease, now)
	silent := !now.Before(due)
	if silent {
		if next := planStatus(node, now); next != nil {
			got, err := c.client.Update(ctx, client.Nodes, next, "status")
			if err == nil && ready(node) == corev1.ConditionTrue {
				c.events.Event(node, corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", node.Name)
			}
			return c.wrote(key, got, err, "mark", "the conditions Unknown")
		}
	}
	outcome := loop.Done()
	if silent {
		outcome = loop.WaitFor("Node "+key.Name, "the kubelet was last heard of at %s", at.UTC().Format(time.RFC3339))
	} else if ready(node) != corev1.ConditionTrue {
		outcome = loop.WaitFor("Node "+key.Name, "the kubelet says that the node is not ready")
	}
	if !silent {
		outcome = outcome.In(due.Sub(now))
	}
	return c.taint(ctx, key, node, outcome, now)
}

// taint makes the taints as the conditions say. outcome is what is said when
// they are so already.
func (c *Controller) taint(ctx context.Context, key loop.Key, node *corev1.Node, outcome loop.Outcome, now time.Time) (loop.Outcome, error) {
	may, after := evictNow, time.Duration(0)
	sick := ready(node) == corev1.ConditionUnknown || ready(node) == corev1.ConditionFalse
	if sick {
		// Two nodes of one zone must not both think that it is their turn.
		c.mu.Lock()
		defer c.mu.Unlock()
		zones, allDown := countZones(client.Listed[*corev1.Node](c.nodes, ""))
		may, after = turn(zones[zoneOf(node)], allDown, c.gaveUp[zoneOf(node)], now)
	}
	want, waits := taints(node, may, now)
	if !sameTaints(node.Spec.Taints, want) {
		next := node.DeepCopy()
		next.Spec.Taints = want
		got, err := c.client.Update(ctx, client.Nodes, next)
		if err == nil && sick && may == evictNow && !noExecute(node.Spec.Taints) && noExecute(want) {
			c.gaveUp[zoneOf(node)] = now
		}
		return c.wrote(key, got, err, "change", "the taints")
	}
	if waits {
		outcome.Reason += "; its pods are not evicted yet, for too many nodes are not ready"
		if after > 0 && (outcome.After == 0 || after < outcome.After) {
			outcome.After = after
		}
	}
	return outcome, nil
}

func noExecute(list []corev1.Taint) bool {
	return has(list, corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute) || has(list, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
}

// wrote is the outcome of a write of a node, which may be gone meanwhile.
func (c *Controller) wrote(key loop.Key, got client.Object, err error, verb, what string) (loop.Outcome, error) {
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.nodes, got, err, verb, "%s", what)
}

func (c *Controller) reconcilePod(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	pod := client.In[*corev1.Pod](c.pods, key.Namespace, key.Name)
	if pod == nil || pod.Spec.NodeName == "" {
		return loop.Done(), nil
	}
	node := client.In[*corev1.Node](c.nodes, "", pod.Spec.NodeName)
	if node == nil {
		return loop.Done(), nil // podgc's
	}
	now := time.Now()
	next := planPod(pod, node, func(t corev1.Taint) time.Time { return c.heartbeats.taintedAt(node.Name, t, now) }, now)
	what := "mark the pod " + next.mark
	var err error
	switch {
	case next.status != nil:
		update := *pod // Update copies what it is given; only the status is replaced here
		update.Status = *next.status
		var got client.Object
		if got, err = c.client.Update(ctx, client.Pods, &update, "status"); err == nil {
			if next.taint == "" {
				c.events.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
			}
			err = c.pods.WaitFor(ctx, got.GetResourceVersion())
		}
	case next.evict:
		what = "evict the pod for taint " + next.taint
		// A view may be late; a pod is not to be told twice to go.
		var live *corev1.Pod
		if live, err = client.Get[*corev1.Pod](ctx, c.client, client.Pods, key.Namespace, key.Name); err != nil || live.DeletionTimestamp != nil {
			break
		}
		err = c.client.Delete(ctx, client.Pods, key.Namespace, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if err == nil {
			c.events.Event(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s/%s", pod.Namespace, pod.Name)
		}
	case next.wait > 0:
		return loop.WaitFor("Node "+node.Name, "to be evicted for taint %s at %s", next.taint, now.Add(next.wait).UTC().Format(time.RFC3339)).In(next.wait), nil
	default:
		return loop.Done(), nil
	}
	switch {
	case apierrors.IsNotFound(err):
		return loop.Done(), nil
	case err != nil:
		return loop.Outcome{}, fmt.Errorf("%s: %w", what, err)
	case next.evict:
		return loop.Done(), nil // the view shows it soon, and a change is a look
	}
	return loop.Acted("marked the pod %s", next.mark), nil
}
