// Package nodettl is the loop that tells kubelets, by an annotation on their
// nodes, for how many seconds they may use a Secret or ConfigMap that they have
// read before they read it again: the more nodes there are, the longer, so that
// a large cluster does not drown in these reads.
//
// The steps overlap, so that a cluster at the edge of one does not waver: a node
// keeps what it was told while that is right for the number of nodes, and else
// is told the shortest time that is. That needs no memory.
//
// See "ttl" in https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/
// and https://kubernetes.io/docs/reference/labels-annotations-taints/.
package nodettl

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "nodettl"

// step is a time for clusters of some size.
type step struct{ least, most, seconds int }

// steps are upstream's; the last has no end.
var steps = []step{
	{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, 10_000, 300}, {9000, int(^uint(0) >> 1), 600},
}

// right is the range of steps that are right for a number of nodes: the first,
// and the one after the last.
func right(nodes int) (from, to int) {
	for from = 0; steps[from].most < nodes; from++ {
	}
	for to = from; to < len(steps) && steps[to].least <= nodes; to++ {
	}
	return from, to
}

// want is what a node that was told had is to be told.
func want(had string, nodes int) string {
	from, to := right(nodes)
	for _, s := range steps[from:to] {
		if had == strconv.Itoa(s.seconds) {
			return had
		}
	}
	return strconv.Itoa(steps[from].seconds)
}

// Controller is the loop, wired. Its keys are nodes, by name.
type Controller struct {
	*loop.Loop
	client  client.Interface
	written controllers.Written
	nodes   client.View

	mu       sync.Mutex
	from, to int // guarded by mu: the steps that were right when all nodes were last looked at
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{client: opts.Client, nodes: opts.Client.View(client.Nodes, client.ViewOptions{})}
	c.nodes.Index(all, func(client.Object) []string { return []string{all} })
	c.Loop = controllers.NewLoop(opts, Name, 2, c.reconcile)
	return c
}

// all is an index that counts the nodes.
const all = "nodettl.all"

func (c *Controller) count() int { return c.nodes.CountIndex(all, all) }

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.nodes, Changed: func(old, new client.Object) {
		if new != nil && (old == nil || old.GetAnnotations()[corev1.ObjectTTLAnnotationKey] != new.GetAnnotations()[corev1.ObjectTTLAnnotationKey]) {
			c.Look(controllers.KeyOf(new))
		}
		if old != nil && new != nil {
			return
		}
		from, to := right(c.count())
		c.mu.Lock()
		moved := from != c.from || to != c.to
		c.from, c.to = from, to
		c.mu.Unlock()
		if moved {
			for _, node := range c.nodes.List("") {
				c.Look(controllers.KeyOf(node))
			}
		}
	}})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	node := client.In[*corev1.Node](c.nodes, "", key.Name)
	if node == nil || node.DeletionTimestamp != nil {
		return loop.Done(), nil
	}
	had, ok := node.Annotations[corev1.ObjectTTLAnnotationKey]
	seconds := want(had, c.count())
	if ok && had == seconds {
		return loop.Done(), nil
	}
	// Kubelets write their nodes all the time: this touches one annotation.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, node.UID, corev1.ObjectTTLAnnotationKey, seconds)
	got, err := c.client.Patch(ctx, client.Nodes, "", key.Name, types.MergePatchType, []byte(patch))
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.nodes, got, err, "change", "for how long node %s may remember Secrets: %s s", key.Name, seconds)
}
