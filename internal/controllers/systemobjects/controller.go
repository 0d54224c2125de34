package systemobjects

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "systemobjects"

// only is the one key: all pieces are looked at together, in their order.
var only = loop.Key{Name: "cluster"}

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	written controllers.Written
	pieces  []piece
	views   map[client.Resource]client.View
}

// New wires the loop; without a ServiceIP it keeps no service. Run turns it.
func New(opts controllers.Options, server Server) *Controller {
	c := &Controller{client: opts.Client, pieces: pieces(server), views: map[client.Resource]client.View{}}
	for _, p := range c.pieces {
		options := client.ViewOptions{}
		if p.res != client.Namespaces {
			options = client.ViewOptions{Namespace: p.want.GetNamespace(), FieldSelector: "metadata.name=" + p.want.GetName()}
		}
		if c.views[p.res] == nil {
			c.views[p.res] = opts.Client.View(p.res, options)
		}
	}
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	c.Look(only)
	var inputs []controllers.Input
	for _, v := range c.views {
		inputs = append(inputs, controllers.Input{View: v, Changed: func(_, _ client.Object) { c.Look(only) }})
	}
	return controllers.Run(ctx, c.Loop, inputs...)
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	for _, p := range c.pieces {
		view := c.views[p.res]
		what := fmt.Sprintf("%s %s", client.KindOf(p.want).Kind, controllers.KeyOf(p.want).Name)
		there := view.Get(p.want.GetNamespace(), p.want.GetName())
		var got client.Object
		var err error
		switch {
		case there == nil:
			got, err = c.client.Create(ctx, p.res, p.want)
			if apierrors.IsAlreadyExists(err) {
				return loop.WaitFor(what, "it is there but not seen yet"), nil
			}
		case p.mend == nil:
			continue
		default:
			mended := p.mend(there)
			if mended == nil {
				continue
			}
			got, err = c.client.Update(ctx, p.res, mended)
		}
		if err != nil {
			return loop.Outcome{}, fmt.Errorf("%s: %w", what, err)
		}
		c.written.Note(key, view, got)
		return loop.Acted("wrote %s", what), nil
	}
	return loop.Done(), nil
}
