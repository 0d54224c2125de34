package crd

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/reach"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/loop"
)

// Definitions is the resource of CustomResourceDefinitions.
var Definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Registry is what serves kinds: the API server.
type Registry interface {
	Serve(*kinds.Kind) error
	// Close refuses new objects of a kind that is about to go.
	Close(schema.GroupResource)
	Withdraw(schema.GroupResource)
}

// Config is what a Registrar is made of.
type Config struct {
	Client   client.Interface // the API server's own
	Registry Registry
	// Reach finds the services of webhooks; nil: by their cluster IPs.
	Reach *reach.Resolver
	// Changed, when not nil, is called when a kind came, changed or went.
	Changed  func()
	Logger   *slog.Logger // nil: no log
	Observer func(loop.Key, loop.Outcome, error, time.Duration)
}

// Registrar is the loop that serves what definitions define.
type Registrar struct {
	cfg    Config
	loop   *loop.Loop
	view   client.View
	served sync.Map // by name of the definition -> *held
}

// held is what is served of a definition.
type held struct {
	resource   schema.GroupResource
	uid        types.UID
	generation int64    // that was last compared
	spec       [32]byte // a hash: deletion moves the generation as well
	names      apiextensionsv1.CustomResourceDefinitionNames
	emptied    func() // stops the look-out for objects that go; nil: none
}

const waiting, byName = "waiting", "name"

// New makes a Registrar. It serves nothing yet.
func New(cfg Config) *Registrar {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Reach == nil {
		cfg.Reach = &reach.Resolver{Get: cfg.Client.Get}
	}
	r := &Registrar{cfg: cfg}
	r.loop = loop.New(loop.Options{
		Name: "customresourcedefinition", Reconcile: r.reconcile, Workers: 1, MaxBackoff: 10 * time.Second,
		Logger: cfg.Logger, Observer: cfg.Observer,
	})
	return r
}

// Loop is the loop, for those who show its gaps.
func (r *Registrar) Loop() *loop.Loop { return r.loop }

// Load serves what is established already: a server that starts again shows
// from its first answer on what it showed before.
func (r *Registrar) Load(ctx context.Context) error {
	list, _, err := client.List[*apiextensionsv1.CustomResourceDefinition](ctx, r.cfg.Client, Definitions, "", metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the custom resource definitions: %w", err)
	}
	for _, crd := range list {
		if !conditionTrue(crd, apiextensionsv1.Established) {
			continue
		}
		if err := r.serve(crd); err != nil {
			r.cfg.Logger.Warn("a custom resource cannot be served", "definition", crd.Name, "error", err)
		}
	}
	return nil
}

// Run follows the definitions until ctx ends.
func (r *Registrar) Run(ctx context.Context) error {
	r.view = r.cfg.Client.View(Definitions, client.ViewOptions{})
	r.view.Index(waiting, func(obj client.Object) []string {
		if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok && !conditionTrue(crd, apiextensionsv1.NamesAccepted) {
			return []string{crd.Spec.Group}
		}
		return nil
	})
	r.view.Index(byName, func(obj client.Object) []string {
		if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
			return namesOf(crd)
		}
		return nil
	})
	defer r.view.Handle(func(old, now client.Object) {
		for _, obj := range []client.Object{now, old} {
			if obj != nil {
				r.loop.Look(loop.Key{Name: obj.GetName()})
				return
			}
		}
	})()
	if err := r.view.WaitSynced(ctx); err != nil {
		r.loop.Stop()
		return err
	}
	return r.loop.Run(ctx)
}

// reconcile looks at one definition.
func (r *Registrar) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	crd := client.In[*apiextensionsv1.CustomResourceDefinition](r.view, "", key.Name)
	if had, ok := r.served.Load(key.Name); ok && (crd == nil || crd.UID != had.(*held).uid) {
		r.withdraw(key.Name)
	}
	if crd == nil {
		// Each time: what is gone is gone at once, but the index shows its names
		// until the view hears of it, which brings the next look.
		_, group, _ := strings.Cut(key.Name, ".")
		r.lookAtGroup(group)
		return loop.Done(), nil
	}
	want := crd.DeepCopy()
	settle(want, others{r.view, crd.Spec.Group, crd.Name})
	// What is served comes before what is told: who reads that a definition is
	// established may use it.
	if conditionTrue(want, apiextensionsv1.Established) {
		if err := r.serve(want); err != nil {
			return loop.Outcome{}, err
		}
	}
	if !reflect.DeepEqual(want.Status, crd.Status) {
		return r.writeStatus(ctx, key, want, "settled names and conditions")
	}
	if crd.DeletionTimestamp != nil && slices.Contains(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		return r.finalize(ctx, key, crd)
	}
	return loop.Done(), nil
}

// writeStatus takes the one step of a look.
func (r *Registrar) writeStatus(ctx context.Context, key loop.Key, want *apiextensionsv1.CustomResourceDefinition, step string) (loop.Outcome, error) {
	wrote, err := r.cfg.Client.Update(ctx, Definitions, want, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return loop.Acted("met another write"), nil
	case err != nil:
		return loop.Outcome{}, fmt.Errorf("write the status: %w", err)
	}
	if err := r.view.WaitFor(ctx, wrote.GetResourceVersion()); err != nil {
		return loop.Outcome{}, err
	}
	r.lookAtGroup(want.Spec.Group)
	return loop.Acted("%s", step), nil
}

// lookAtGroup looks at those who may now have a name that was held. Those that
// are gone though the index still shows them need no look.
func (r *Registrar) lookAtGroup(group string) {
	for _, obj := range r.view.ByIndex(waiting, group) {
		if r.view.Get("", obj.GetName()) != nil {
			r.loop.Look(loop.Key{Name: obj.GetName()})
		}
	}
}

// others are the names of the rest of a definition's group.
type others struct {
	view  client.View
	group string
	but   string
}

func (o others) resource(name string) bool { return o.held(resourceKey(o.group, name)) }
func (o others) kind(name string) bool     { return o.held(kindKey(o.group, name)) }

func (o others) held(key string) bool {
	for _, obj := range o.view.ByIndex(byName, key) {
		if obj.GetName() != o.but {
			return true
		}
	}
	return false
}

// serve brings what is served up to a definition. What lies in status and
// metadata changes nothing: watches of its objects go on.
func (r *Registrar) serve(crd *apiextensionsv1.CustomResourceDefinition) error {
	names := crd.Status.AcceptedNames
	had, _ := r.served.Load(crd.Name)
	h, _ := had.(*held)
	if h != nil && h.uid == crd.UID && h.generation == crd.Generation && reflect.DeepEqual(h.names, names) {
		return nil
	}
	encoded, err := crd.Spec.Marshal()
	if err != nil {
		return err
	}
	now := &held{uid: crd.UID, generation: crd.Generation, names: names, spec: sha256.Sum256(encoded)}
	now.resource = schema.GroupResource{Group: crd.Spec.Group, Resource: names.Plural}
	if h != nil {
		if h.uid == now.uid && h.spec == now.spec && reflect.DeepEqual(h.names, names) {
			h.generation = now.generation
			return nil
		}
		now.emptied = h.emptied
	}
	conversion, err := newWebhook(crd, r.cfg.Reach)
	if err != nil {
		return err
	}
	k, err := newKind(crd, conversion)
	if err != nil {
		return err
	}
	if err := r.cfg.Registry.Serve(k); err != nil {
		return err
	}
	if crd.DeletionTimestamp != nil {
		r.cfg.Registry.Close(now.resource)
	}
	r.served.Store(crd.Name, now)
	r.changed()
	return nil
}

func (r *Registrar) withdraw(name string) {
	had, ok := r.served.LoadAndDelete(name)
	if !ok {
		return
	}
	h := had.(*held)
	if h.emptied != nil {
		h.emptied()
	}
	r.cfg.Registry.Withdraw(h.resource)
	r.changed()
}

func (r *Registrar) changed() {
	if r.cfg.Changed != nil {
		r.cfg.Changed()
	}
}
