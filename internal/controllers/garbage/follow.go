package garbage

import (
	"context"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/client"
)

// definitions are what makes kinds come and go. Where nobody serves them,
// their view shows nothing and the kinds are followed by time alone.
var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

const (
	// kindsEvery is how often the served resources are asked for while no
	// definition changes.
	kindsEvery = 10 * time.Second
	// kindsRest is the least between two times of asking.
	kindsRest = time.Second
	// answerTime is how long anybody may take to answer: an extension that
	// does not must not keep the rest waiting.
	answerTime = 5 * time.Second
)

// followKinds keeps the monitors in line with what is served. It asks when a
// definition changes, and then at pauses that grow: what is served may lag
// behind its definition.
func (c *Controller) followKinds(ctx context.Context) {
	defer c.kinds.follow(nil, nil, func(m *monitor) { m.stop() })
	changed := make(chan struct{}, 1)
	defer c.client.View(definitions, client.ViewOptions{Metadata: true}).Handle(func(_, _ client.Object) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	for pause := kindsRest; ; {
		if !c.askKinds(ctx) {
			pause = kindsRest
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(kindsRest):
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			pause = kindsRest
		case <-time.After(pause):
			pause = min(2*pause, kindsEvery-kindsRest)
		}
	}
}

// askKinds asks once what is served, and looks again at the objects that
// waited for a kind.
func (c *Controller) askKinds(ctx context.Context) (answered bool) {
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	infos, err := c.client.Resources(asking)
	if err != nil {
		return false
	}
	begun := c.kinds.follow(infos,
		func(info client.ResourceInfo) *monitor { return c.newMonitor(ctx, info) },
		func(m *monitor) { m.stop() })
	for _, m := range begun {
		c.lookAtWaiting(m.kind())
	}
	return true
}

func (c *Controller) lookAtWaiting(kind schema.GroupKind) {
	for _, key := range c.waiting.take(kind) {
		c.Look(key)
	}
}

// newMonitor follows a resource; changed hears of its changes.
func (c *Controller) newMonitor(ctx context.Context, info client.ResourceInfo) *monitor {
	ctx, cancel := context.WithCancel(ctx)
	m := &monitor{
		info: info, since: time.Now(), synced: make(chan struct{}),
		view: c.client.View(info.Resource, client.ViewOptions{Metadata: true}),
	}
	m.view.Index(byOwner, ownersOf)
	remove := m.view.Handle(func(old, new client.Object) { c.changed(m, old, new) })
	m.stop = func() { cancel(); remove() }
	c.running.Go(func() {
		if m.view.WaitSynced(ctx) == nil {
			close(m.synced)
			c.lookAtWaiting(m.kind())
		}
	})
	return m
}
