// Package serviceaccount is the loop that keeps a service account named
// default in every namespace, for pods that name none.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#serviceaccount-controller.
package serviceaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop. Account is what it keeps.
const (
	Name    = "serviceaccount"
	Account = "default"
)

// Controller is the loop, wired. Its keys are namespaces, by name.
type Controller struct {
	*loop.Loop
	client               client.Interface
	written              controllers.Written
	namespaces, accounts client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:     opts.Client,
		namespaces: opts.Client.View(client.Namespaces, client.ViewOptions{}),
		accounts:   opts.Client.View(client.ServiceAccounts, client.ViewOptions{}),
	}
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.namespaces, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.accounts, Changed: controllers.LookAtNamespace(c.Loop, Account)},
	)
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	ns := client.In[*corev1.Namespace](c.namespaces, "", key.Name)
	if !controllers.Active(ns) || c.accounts.Get(key.Name, Account) != nil {
		return loop.Done(), nil
	}
	made, err := c.client.Create(ctx, client.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: key.Name, Name: Account}})
	switch {
	case controllers.NamespaceEnding(err):
		return loop.Done(), nil
	case apierrors.IsAlreadyExists(err):
		// The view will show it, and its event bring us back if it has gone.
		return loop.WaitFor("ServiceAccount "+key.Name+"/"+Account, "it is there but not seen yet"), nil
	case err != nil:
		return loop.Outcome{}, err
	}
	c.written.Note(key, c.accounts, made)
	return loop.Acted("made service account %s", Account), nil
}
