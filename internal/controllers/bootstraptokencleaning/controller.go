// Package bootstraptokencleaning is the loop that deletes bootstrap tokens when
// their time is up. What a token is says package bootstraptoken.
//
// Failure: when that is stands in the Secret, so a restart forgets nothing; a
// deletion is guarded by the revision that was looked at, for the time may have
// been extended.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/#token-controller.
package bootstraptokencleaning

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/bootstraptoken"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "bootstraptokencleaning"

// Controller is the loop, wired. Its keys are Secrets.
type Controller struct {
	*loop.Loop
	client client.Interface
	tokens client.View
}

// Tokens is the view of bootstrap tokens that loops share.
func Tokens(c client.Interface) client.View {
	return c.View(client.Secrets, client.ViewOptions{Namespace: bootstraptoken.Namespace, FieldSelector: "type=" + string(bootstraptoken.Type)})
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{client: opts.Client, tokens: Tokens(opts.Client)}
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.tokens, Changed: func(_, new client.Object) {
		if new != nil {
			c.Look(controllers.KeyOf(new))
		}
	}})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	s := client.In[*corev1.Secret](c.tokens, key.Namespace, key.Name)
	if s == nil || s.DeletionTimestamp != nil || s.Type != bootstraptoken.Type {
		return loop.Done(), nil
	}
	ends := bootstraptoken.Expires(s)
	if ends.IsZero() {
		return loop.Done(), nil
	}
	if left := time.Until(ends); left > 0 {
		return loop.DoneUntil(left), nil
	}
	if err := controllers.DeleteSeen(ctx, c.client, client.Secrets, s); err != nil {
		return loop.Outcome{}, fmt.Errorf("delete the token, which has expired: %w", err)
	}
	return loop.Done(), nil // the view shows it soon
}
