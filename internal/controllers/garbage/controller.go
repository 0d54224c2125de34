// Package garbage is the loop that deletes what nobody owns any more.
//
//	views of all resources --index--> owner's uid -> dependents
//	        |                               |
//	        |   owner gone, or going  ------+--> look at each dependent
//	        v                                      |
//	  object going with a finalizer of ours        v
//	        |                       owners there? absent? going?
//	        v                              |
//	  foreground: dependents first         +-> none left: delete it
//	  orphan: cut the dependents off       +-> some left: cut the absent ones
//
// The views are of metadata and hold no second copy of an object in process.
// That an owner is absent is never believed from a view: it is asked of the
// server, once for each uid. Only where nobody serves the owner's kind any more
// is there nobody to ask, and what the view told last counts. Kinds may come
// and go while it runs, and are followed as soon as their definitions change;
// one that cannot be listed or does not answer does not hold up the rest.
//
// Keys are "resource.group/name" in a namespace.
//
// See https://kubernetes.io/docs/concepts/architecture/garbage-collection/.
package garbage

import (
	"context"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "garbage"

// workers delete at the same time: enough for the store's group commit.
const workers = 32

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written
	kinds   *kinds
	absent  *absent
	gone    *absent // uids that a view told gone
	waiting *waiting
	running sync.WaitGroup
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client: opts.Client, events: opts.Recorder(),
		kinds: newKinds(), absent: newAbsent(), gone: newAbsent(), waiting: newWaiting(),
	}
	c.Loop = controllers.NewLoop(opts, Name, workers, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.running.Go(func() { c.followKinds(ctx) })
	err := c.Loop.Run(ctx)
	cancel()
	c.running.Wait()
	return err
}

func keyAt(at place) loop.Key {
	return loop.Key{Namespace: at.namespace, Name: at.resource.String() + "/" + at.name}
}

func placeOf(key loop.Key) place {
	res, name, _ := strings.Cut(key.Name, "/")
	return place{resource: schema.ParseGroupResource(res), namespace: key.Namespace, name: name}
}

// changed looks where there may be something to do. Most changes end here.
func (c *Controller) changed(m *monitor, old, new client.Object) {
	at := m.place(controllers.Present(old, new))
	if old != nil && (new == nil || old.GetUID() != new.GetUID()) {
		dependents := c.kinds.dependents(old.GetUID())
		if len(dependents) > 0 {
			c.gone.add(old.GetUID(), "")
		}
		for _, d := range dependents {
			c.Look(keyAt(d.kind.place(d)))
		}
		c.lookAtGoingOwners(old)
	}
	if new == nil {
		if c.Open(keyAt(at)) {
			c.Look(keyAt(at)) // it is waited for no more
		}
		return
	}
	switch {
	case new.GetDeletionTimestamp() != nil:
		if finalizing(new, metav1.FinalizerDeleteDependents) || finalizing(new, metav1.FinalizerOrphanDependents) {
			c.Look(keyAt(at))
		}
	case len(new.GetOwnerReferences()) > 0 && !c.ownersFine(new):
		c.Look(keyAt(at))
	}
	if old != nil && !sameRefs(old.GetOwnerReferences(), new.GetOwnerReferences()) {
		c.lookAtGoingOwners(old)
	}
}

// lookAtGoingOwners looks at the owners that wait for their dependents.
func (c *Controller) lookAtGoingOwners(obj client.Object) {
	for _, ref := range obj.GetOwnerReferences() {
		if owner, m := c.seen(obj, ref); owner != nil && owner.GetDeletionTimestamp() != nil {
			c.Look(keyAt(m.place(owner)))
		}
	}
}

// ownersFine tells whether all owners are seen and stay.
func (c *Controller) ownersFine(obj client.Object) bool {
	for _, ref := range obj.GetOwnerReferences() {
		owner, _ := c.seen(obj, ref)
		if owner == nil || owner.GetDeletionTimestamp() != nil && finalizing(owner, metav1.FinalizerDeleteDependents) {
			return false
		}
	}
	return true
}

// seen is an owner as the views show it, or nil.
func (c *Controller) seen(obj client.Object, ref metav1.OwnerReference) (client.Object, *monitor) {
	m := c.kinds.ofKind(kindOf(ref))
	if m == nil {
		return nil, nil
	}
	namespace := ""
	if m.info.Namespaced {
		namespace = obj.GetNamespace()
	}
	if owner := m.view.Get(namespace, ref.Name); owner != nil && owner.GetUID() == ref.UID {
		return owner, m
	}
	return nil, m
}

func kindOf(ref metav1.OwnerReference) schema.GroupKind {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupKind{}
	}
	return schema.GroupKind{Group: gv.Group, Kind: ref.Kind}
}

func finalizing(obj client.Object, finalizer string) bool {
	for _, f := range obj.GetFinalizers() {
		if f == finalizer {
			return true
		}
	}
	return false
}

// absent remembers uids that the server said are not there: they never come
// back.
type absent struct {
	mu   sync.Mutex
	uids map[types.UID]string // guarded by mu: the namespace where it is instead, or ""
}

// absentLimit bounds what is remembered.
const absentLimit = 10_000

func newAbsent() *absent { return &absent{uids: map[types.UID]string{}} }

func (a *absent) known(uid types.UID) (elsewhere string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	elsewhere, ok = a.uids[uid]
	return elsewhere, ok
}

func (a *absent) add(uid types.UID, elsewhere string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.uids) >= absentLimit {
		clear(a.uids)
	}
	a.uids[uid] = elsewhere
}
