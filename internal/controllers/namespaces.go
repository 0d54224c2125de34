package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// Active tells whether things may be created in a namespace; not in nil.
func Active(ns *corev1.Namespace) bool {
	return ns != nil && ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceTerminating
}

// Fixture is an object that every namespace ought to have.
type Fixture struct {
	Resource client.Resource
	Kind     string // for people: "ConfigMap"
	Name     string
	// Want is what the object of a namespace ought to be; nil when it is that.
	// there may be nil.
	Want func(namespace string, there client.Object) client.Object
}

// FixtureLoop keeps a Fixture. Its keys are namespaces, by name.
type FixtureLoop struct {
	*loop.Loop
	fixture            Fixture
	client             client.Interface
	written            Written
	namespaces, things client.View
}

// NewFixtureLoop wires a loop of the given name; Run turns it.
func NewFixtureLoop(opts Options, name string, f Fixture) *FixtureLoop {
	c := &FixtureLoop{
		fixture:    f,
		client:     opts.Client,
		namespaces: opts.Client.View(client.Namespaces, client.ViewOptions{}),
		things:     opts.Client.View(f.Resource, client.ViewOptions{FieldSelector: "metadata.name=" + f.Name}),
	}
	c.Loop = NewLoop(opts, name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *FixtureLoop) Run(ctx context.Context) error {
	return Run(ctx, c.Loop,
		Input{View: c.namespaces, Changed: Look(c.Loop)},
		Input{View: c.things, Changed: func(old, new client.Object) {
			if obj := Present(old, new); obj.GetName() == c.fixture.Name {
				c.Look(loop.Key{Name: obj.GetNamespace()})
			}
		}})
}

func (c *FixtureLoop) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	if !Active(client.In[*corev1.Namespace](c.namespaces, "", key.Name)) {
		return loop.Done(), nil
	}
	what := fmt.Sprintf("%s %s", c.fixture.Kind, c.fixture.Name)
	there := c.things.Get(key.Name, c.fixture.Name)
	want := c.fixture.Want(key.Name, there)
	if want == nil {
		return loop.Done(), nil
	}
	if there != nil {
		got, err := c.client.Update(ctx, c.fixture.Resource, want)
		return c.written.Outcome(key, c.things, got, err, "update", "%s", what)
	}
	got, err := c.client.Create(ctx, c.fixture.Resource, want)
	switch {
	case NamespaceEnding(err):
		return loop.Done(), nil
	case apierrors.IsAlreadyExists(err):
		// The view will show it, and its event bring us back if it has gone.
		return loop.WaitFor(c.fixture.Kind+" "+key.Name+"/"+c.fixture.Name, "it is there but not seen yet"), nil
	}
	return c.written.Outcome(key, c.things, got, err, "create", "%s", what)
}
