// Package podgc deletes pods that no kubelet will ever delete: those on nodes
// that do not exist any more or are out of service, and those that were deleted
// before they had a node. Of the pods that have ended it leaves so many, for
// people to look at.
//
// Use: New(options, MostEnded).Run(ctx).
//
// Concurrency: as package loop.
//
// Failure: since when a node is gone is only remembered; after a restart its
// pods stay 40 s longer. Before a pod is deleted the server itself is asked
// whether the node is there, for a view may be late.
package podgc

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "podgc"

// MostEnded is how many pods that have ended may be there, as upstream's.
const MostEnded = 12_500

// endedKey stands for all pods that have ended.
var endedKey = loop.Key{}

// byEnd is an index that counts them.
const (
	byEnd    = "podgc.ended"
	hasEnded = "ended"
)

// Controller is the loop, wired. Its keys are pods, and endedKey.
type Controller struct {
	*loop.Loop
	client      client.Interface
	mostEnded   int
	nodes, pods client.View
	written     controllers.Written

	mu   sync.Mutex
	gone map[string]time.Time // since when a node that pods name is missing; guarded by mu
}

// New wires the loop; Run turns it. mostEnded is how many pods that have ended
// are left, MostEnded as a rule.
func New(opts controllers.Options, mostEnded int) *Controller {
	c := &Controller{
		client: opts.Client, mostEnded: mostEnded,
		nodes: opts.Client.View(client.Nodes, client.ViewOptions{}),
		pods:  opts.Client.View(client.Pods, client.ViewOptions{}),
		gone:  map[string]time.Time{},
	}
	client.IndexByNode(c.pods)
	c.pods.Index(byEnd, func(obj client.Object) []string {
		if countsAsEnded(obj.(*corev1.Pod)) {
			return []string{hasEnded}
		}
		return nil
	})
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.nodes, Changed: c.nodeChanged},
		controllers.Input{View: c.pods, Changed: c.podChanged})
}

// nodeChanged looks at the pods of a node that has come or gone, or gone out of
// service.
func (c *Controller) nodeChanged(old, new client.Object) {
	before, _ := old.(*corev1.Node)
	after, _ := new.(*corev1.Node)
	if old != nil && new != nil && (outOfService(before) || !outOfService(after)) {
		return
	}
	for _, pod := range c.pods.ByIndex(client.ByNode, controllers.Present(old, new).GetName()) {
		c.Look(controllers.KeyOf(pod))
	}
}

// podChanged looks at pods without a node, and at those that have ended when
// they have become too many.
func (c *Controller) podChanged(_, new client.Object) {
	pod, ok := new.(*corev1.Pod)
	if !ok {
		return
	}
	if countsAsEnded(pod) && c.pods.CountIndex(byEnd, hasEnded) > c.mostEnded {
		c.Look(endedKey)
	}
	node := client.In[*corev1.Node](c.nodes, "", pod.Spec.NodeName)
	if pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" && node == nil ||
		pod.DeletionTimestamp != nil && outOfService(node) {
		c.Look(controllers.KeyOf(pod))
	}
}

// batch bounds the pods deleted at one look.
const batch = 100

// endMost deletes pods that have ended and are too many.
func (c *Controller) endMost(ctx context.Context) (loop.Outcome, error) {
	many := surplus(client.Indexed[*corev1.Pod](c.pods, byEnd, hasEnded), c.mostEnded)
	for _, pod := range many[:min(batch, len(many))] {
		uid, revision := pod.UID, pod.ResourceVersion
		err := c.client.Delete(ctx, client.Pods, pod.Namespace, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &revision}})
		if err != nil && !apierrors.IsNotFound(err) {
			return loop.Outcome{}, fmt.Errorf("delete pod %s, one of more than %d that have ended: %w", controllers.KeyOf(pod), c.mostEnded, err)
		}
	}
	if len(many) > 0 {
		return loop.DoneUntil(time.Second), nil // those that the view is behind on are not there any more then
	}
	return loop.Done(), nil
}

// goneSince is when a node was first seen missing; zero when it is there.
func (c *Controller) goneSince(name string, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" || c.nodes.Get("", name) != nil {
		delete(c.gone, name)
		return time.Time{}
	}
	if c.pods.CountIndex(client.ByNode, name) == 0 {
		delete(c.gone, name)
	} else if _, ok := c.gone[name]; !ok {
		c.gone[name] = now
	}
	return c.gone[name]
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if key == endedKey {
		return c.endMost(ctx)
	}
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	pod := client.In[*corev1.Pod](c.pods, key.Namespace, key.Name)
	if pod == nil {
		return loop.Done(), nil
	}
	now := time.Now()
	node := lost{gone: c.goneSince(pod.Spec.NodeName, now), outOf: outOfService(client.In[*corev1.Node](c.nodes, "", pod.Spec.NodeName))}
	next := plan(pod, node, now)
	if next.status == nil && !next.remove {
		if next.wait > 0 {
			return loop.WaitFor("Node "+pod.Spec.NodeName, "%s; the pod is deleted when it has not come back after %s", next.why, quarantine).In(next.wait), nil
		}
		return loop.Done(), nil
	}
	if name := pod.Spec.NodeName; next.absent {
		_, err := c.client.Get(ctx, client.Nodes, "", name)
		if err == nil {
			return loop.WaitFor("Node "+name, "it is back, and not shown yet").In(time.Second), nil
		}
		if !apierrors.IsNotFound(err) {
			return loop.Outcome{}, fmt.Errorf("look whether node %s is there: %w", name, err)
		}
	}
	if next.remove {
		err := c.client.Delete(ctx, client.Pods, key.Namespace, key.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return loop.Outcome{}, fmt.Errorf("delete the pod (%s): %w", next.why, err)
		}
		return loop.Done(), nil // the view shows it soon, and a change is a look
	}
	update := *pod // Update copies what it is given; only the status is replaced here
	update.Status = *next.status
	got, err := c.client.Update(ctx, client.Pods, &update, "status")
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.pods, got, err, "mark", "the pod as failed (%s)", next.why)
}
