// Package eventttl is the loop that takes events away some time after they
// last happened. Upstream lets etcd do that with leases; here the store knows
// no time, and events are objects like any other.
//
// Use: New(options, ttl).Run(ctx). Keys are events.
//
// Concurrency: as package loop. Copies of the loop delete the same events: the
// second finds them gone.
//
// Failure: when an event is due stands in the event, so a restart forgets
// nothing. One that happened again after it was looked at stays: the deletion
// is guarded by the revision.
//
// Cost: an event costs one place in the queue, however often it happens.
package eventttl

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop. DefaultTTL is upstream's.
const (
	Name       = "eventttl"
	DefaultTTL = time.Hour
)

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client client.Interface
	ttl    time.Duration
	events client.View
}

// New wires the loop; a ttl of 0 is DefaultTTL. Run turns it.
func New(opts controllers.Options, ttl time.Duration) *Controller {
	if ttl == 0 {
		ttl = DefaultTTL
	}
	c := &Controller{client: opts.Client, ttl: ttl, events: opts.Client.View(client.Events, client.ViewOptions{})}
	c.Loop = controllers.NewLoop(opts, Name, 2, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.events, Changed: c.changed})
}

// changed looks at an event when it may have to go. One that counts up keeps
// its place in the queue: the look finds that it is young.
func (c *Controller) changed(old, new client.Object) {
	if event, ok := new.(*corev1.Event); ok && old == nil {
		c.LookAfter(controllers.KeyOf(event), c.left(event))
	}
}

// left is how long an event may stay, negative when it is overdue.
func (c *Controller) left(event *corev1.Event) time.Duration {
	last := event.CreationTimestamp.Time
	times := []time.Time{event.LastTimestamp.Time, event.EventTime.Time}
	if event.Series != nil {
		times = append(times, event.Series.LastObservedTime.Time)
	}
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return time.Until(last.Add(c.ttl))
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	event := client.In[*corev1.Event](c.events, key.Namespace, key.Name)
	if event == nil || event.DeletionTimestamp != nil {
		return loop.Done(), nil
	}
	if left := c.left(event); left > 0 {
		return loop.DoneUntil(left), nil
	}
	if err := controllers.DeleteSeen(ctx, c.client, client.Events, event); err != nil {
		return loop.Outcome{}, err // a conflict too: it has just happened again
	}
	return loop.Done(), nil
}
