// Package podgc deletes pods that no kubelet will ever delete: those on nodes
// that do not exist any more, and those that were deleted before they had a
// node.
//
// Use: New(options).Run(ctx).
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

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client      client.Interface
	nodes, pods client.View
	written     controllers.Written

	mu   sync.Mutex
	gone map[string]time.Time // since when a node that pods name is missing; guarded by mu
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client: opts.Client,
		nodes:  opts.Client.View(client.Nodes, client.ViewOptions{}),
		pods:   opts.Client.View(client.Pods, client.ViewOptions{}),
		gone:   map[string]time.Time{},
	}
	client.IndexByNode(c.pods)
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.nodes, Changed: c.nodeChanged},
		controllers.Input{View: c.pods, Changed: c.podChanged})
}

// nodeChanged looks at the pods of a node that has come or gone.
func (c *Controller) nodeChanged(old, new client.Object) {
	if old != nil && new != nil {
		return
	}
	for _, pod := range c.pods.ByIndex(client.ByNode, controllers.Present(old, new).GetName()) {
		c.Look(controllers.KeyOf(pod))
	}
}

// podChanged looks at pods without a node.
func (c *Controller) podChanged(_, new client.Object) {
	pod, ok := new.(*corev1.Pod)
	if !ok {
		return
	}
	if pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" && c.nodes.Get("", pod.Spec.NodeName) == nil {
		c.Look(controllers.KeyOf(pod))
	}
}

// goneSince is when a node was first seen missing; zero when it is there.
func (c *Controller) goneSince(name string, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" || c.nodes.Get("", name) != nil {
		delete(c.gone, name)
		return time.Time{}
	}
	if len(c.pods.ByIndex(client.ByNode, name)) == 0 {
		delete(c.gone, name)
	} else if _, ok := c.gone[name]; !ok {
		c.gone[name] = now
	}
	return c.gone[name]
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	pod := client.In[*corev1.Pod](c.pods, key.Namespace, key.Name)
	if pod == nil {
		return loop.Done(), nil
	}
	now := time.Now()
	next := plan(pod, c.goneSince(pod.Spec.NodeName, now), now)
	if next.status == nil && !next.remove {
		if next.wait > 0 {
			return loop.WaitFor("Node "+pod.Spec.NodeName, "%s; the pod is deleted when it has not come back after %s", next.why, quarantine).In(next.wait), nil
		}
		return loop.Done(), nil
	}
	if name := pod.Spec.NodeName; name != "" {
		_, err := c.client.Get(ctx, client.Nodes, "", name)
		if err == nil {
			return loop.WaitFor("Node "+name, "it is back, and not shown yet").In(time.Second), nil
		}
		if !apierrors.IsNotFound(err) {
			return loop.Outcome{}, fmt.Errorf("look whether node %s is there: %w", name, err)
		}
	}
	var err error
	what := "deleted the pod: " + next.why
	if next.remove {
		err = c.client.Delete(ctx, client.Pods, key.Namespace, key.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if err == nil {
			return loop.Done(), nil // the view shows it soon, and a change is a look
		}
	} else {
		what = "marked the pod as failed: " + next.why
		update := *pod // Update copies what it is given; only the status is replaced here
		update.Status = *next.status
		var got client.Object
		if got, err = c.client.Update(ctx, client.Pods, &update, "status"); err == nil {
			c.written.Note(key, c.pods, got)
		}
	}
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("%s: %w", what, err)
	}
	return loop.Acted("%s", what), nil
}
