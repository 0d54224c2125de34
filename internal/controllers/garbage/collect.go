package garbage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// owners of one object, sorted out.
type owners struct {
	solid   []metav1.OwnerReference // there, or nobody can say
	going   []metav1.OwnerReference // there, but waiting for their dependents to go
	absent  []metav1.OwnerReference
	unknown string // a kind that nobody serves, for people
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	c.waiting.forget(key)
	at := placeOf(key)
	m := c.kinds.named(at.resource)
	if m == nil {
		return loop.Done(), nil
	}
	obj := m.view.Get(at.namespace, at.name)
	switch {
	case obj == nil:
		return loop.Done(), nil
	case obj.GetDeletionTimestamp() != nil && finalizing(obj, metav1.FinalizerDeleteDependents):
		return c.foreground(ctx, key, m, obj)
	case obj.GetDeletionTimestamp() != nil && finalizing(obj, metav1.FinalizerOrphanDependents):
		return c.orphan(ctx, key, m, obj)
	case obj.GetDeletionTimestamp() != nil || len(obj.GetOwnerReferences()) == 0:
		return loop.Done(), nil
	}
	o, err := c.sortOwners(ctx, key, m, obj)
	if err != nil {
		return loop.Outcome{}, err
	}
	switch {
	case len(o.solid) > 0 && len(o.absent)+len(o.going) > 0:
		return c.setOwners(ctx, key, m, obj, o.solid, "cut off owners that are gone")
	case len(o.solid) > 0 && o.unknown != "":
		return loop.WaitFor("", "nobody serves its owner's kind %s", o.unknown).In(patience), nil
	case len(o.solid) > 0:
		return loop.Done(), nil
	case len(o.going) > 0 && len(c.kinds.dependents(obj.GetUID())) > 0:
		// Its own dependents go first. In a circle somebody has to give way.
		if c.circular(obj) && blocks(obj.GetOwnerReferences()) {
			return c.setOwners(ctx, key, m, obj, unblocked(obj.GetOwnerReferences()), "gave way in a circle of owners")
		}
		return c.delete(ctx, m, obj, metav1.DeletePropagationForeground)
	}
	policy := metav1.DeletePropagationBackground
	switch {
	case finalizing(obj, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case finalizing(obj, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	return c.delete(ctx, m, obj, policy)
}

func (c *Controller) sortOwners(ctx context.Context, key loop.Key, m *monitor, obj client.Object) (o owners, err error) {
	for _, ref := range obj.GetOwnerReferences() {
		owner, kind := c.seen(obj, ref)
		switch {
		case owner != nil && owner.GetDeletionTimestamp() != nil && finalizing(owner, metav1.FinalizerDeleteDependents):
			o.going = append(o.going, ref)
		case owner != nil:
			o.solid = append(o.solid, ref)
		case kind == nil && c.toldGone(ref.UID):
			o.absent = append(o.absent, ref)
		case kind == nil:
			o.unknown = kindOf(ref).String()
			o.solid = append(o.solid, ref)
			c.waiting.add(kindOf(ref), key)
			if c.kinds.ofKind(kindOf(ref)) != nil {
				c.Look(key)
			}
		case kind.info.Namespaced && !m.info.Namespaced:
			// What lies in no namespace cannot be owned by what lies in one.
			c.misplaced(m, obj, ref)
			o.solid = append(o.solid, ref)
		default:
			gone, err := c.verify(ctx, kind, m, obj, ref)
			if err != nil {
				return o, err
			}
			if gone {
				o.absent = append(o.absent, ref)
				continue
			}
			o.solid = append(o.solid, ref)
			if kind.isSynced() {
				continue // the view is going to tell when it goes
			}
			c.waiting.add(kind.kind(), key)
			if kind.isSynced() {
				c.Look(key)
			}
		}
	}
	return o, nil
}

// verify asks the server whether an owner is gone.
func (c *Controller) verify(ctx context.Context, kind, m *monitor, obj client.Object, ref metav1.OwnerReference) (gone bool, err error) {
	elsewhere, known := c.absent.known(ref.UID)
	if !known {
		namespace := ""
		if kind.info.Namespaced {
			namespace = obj.GetNamespace()
		}
		live, err := c.ask(ctx, kind, namespace, ref.Name)
		switch {
		case err != nil && apierrors.IsNotFound(err) && c.toldGone(ref.UID):
			return true, nil
		case err != nil:
			return false, err
		case live != nil && live.GetUID() == ref.UID:
			return false, nil
		}
		if kind.info.Namespaced {
			elsewhere = c.elsewhere(kind, ref.UID, namespace)
		}
		c.absent.add(ref.UID, elsewhere)
	}
	if elsewhere != "" && elsewhere != obj.GetNamespace() {
		c.misplaced(m, obj, ref)
	}
	return true, nil
}

// ask gets an owner, or nil when the server says that it is not there. A server
// that did not answer is left alone for a while: it would take all workers.
func (c *Controller) ask(ctx context.Context, kind *monitor, namespace, name string) (client.Object, error) {
	if deaf := kind.deaf.Load(); deaf != 0 && time.Since(time.Unix(0, deaf)) < patience {
		return nil, fmt.Errorf("%s did not answer in time", kind.info.Resource.GroupResource())
	}
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	live, err := c.client.Get(asking, kind.info.Resource, namespace, name)
	switch {
	case err == nil:
		return live, nil
	case asking.Err() != nil && ctx.Err() == nil:
		kind.deaf.Store(time.Now().UnixNano())
	case missing(err, name):
		return nil, nil
	}
	return nil, err
}

func (c *Controller) toldGone(uid types.UID) bool {
	_, told := c.gone.known(uid)
	return told
}

// missing tells whether an error says that an object is not there. That its
// version is served no more says nothing about it.
func missing(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || apierrors.IsUnexpectedServerError(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name
}

// elsewhere finds an owner in another namespace than where it is looked for.
func (c *Controller) elsewhere(kind *monitor, uid types.UID, namespace string) string {
	for _, obj := range kind.view.List("") {
		if obj.GetUID() == uid && obj.GetNamespace() != namespace {
			return obj.GetNamespace()
		}
	}
	return ""
}

// misplaced tells people of an owner reference that cannot be.
func (c *Controller) misplaced(m *monitor, obj client.Object, ref metav1.OwnerReference) {
	about := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()},
	}
	about.SetGroupVersionKind(m.info.Resource.GroupVersion().WithKind(m.info.Kind))
	c.events.Event(about, corev1.EventTypeWarning, "OwnerRefInvalidNamespace",
		"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		ref.APIVersion, ref.Kind, obj.GetNamespace(), ref.Name, ref.UID, obj.GetNamespace())
}

func (c *Controller) delete(ctx context.Context, m *monitor, obj client.Object, policy metav1.DeletionPropagation) (loop.Outcome, error) {
	uid, revision := obj.GetUID(), obj.GetResourceVersion()
	err := c.client.Delete(ctx, m.info.Resource, obj.GetNamespace(), obj.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &revision},
		PropagationPolicy: &policy,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return loop.Outcome{}, err
	}
	return loop.Done(), nil
}

// foreground lets an owner go once nothing that blocks it is left.
func (c *Controller) foreground(ctx context.Context, key loop.Key, m *monitor, owner client.Object) (loop.Outcome, error) {
	if name := c.kinds.unsynced(); name != "" {
		return loop.WaitFor("", "%s has to be listed first", name).In(time.Second), nil
	}
	blocking := 0
	for _, d := range c.kinds.dependents(owner.GetUID()) {
		if blockedBy(d, owner.GetUID()) {
			blocking++
		}
		if d.GetDeletionTimestamp() == nil || finalizing(d, metav1.FinalizerDeleteDependents) {
			c.Look(keyAt(d.kind.place(d)))
		}
	}
	if blocking > 0 {
		return loop.WaitFor("", "%d dependents have to go first", blocking), nil
	}
	return c.removeFinalizer(ctx, key, m, owner, metav1.FinalizerDeleteDependents)
}

// orphanBatch bounds the dependents cut off at one look.
const orphanBatch = 500

// orphan cuts off all dependents of an owner, then lets it go. The writes are
// independent of each other, and the next look counts anew.
func (c *Controller) orphan(ctx context.Context, key loop.Key, m *monitor, owner client.Object) (loop.Outcome, error) {
	if name := c.kinds.unsynced(); name != "" {
		return loop.WaitFor("", "%s has to be listed first", name).In(time.Second), nil
	}
	dependents := c.kinds.dependents(owner.GetUID())
	if len(dependents) == 0 {
		return c.removeFinalizer(ctx, key, m, owner, metav1.FinalizerOrphanDependents)
	}
	var mu sync.Mutex
	var failure error
	var wg sync.WaitGroup
	turns := make(chan struct{}, workers)
	for _, d := range dependents[:min(len(dependents), orphanBatch)] {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			left := slices.DeleteFunc(slices.Clone(d.GetOwnerReferences()), func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() })
			_, err := c.setOwners(ctx, key, d.kind, d.Object, left, "")
			mu.Lock()
			defer mu.Unlock()
			if err != nil && failure == nil {
				failure = err
			}
		})
	}
	wg.Wait()
	if failure != nil {
		return loop.Outcome{}, failure
	}
	return loop.Acted("cut off %d dependents", min(len(dependents), orphanBatch)), nil
}

func (c *Controller) setOwners(ctx context.Context, key loop.Key, m *monitor, obj client.Object, refs []metav1.OwnerReference, what string) (loop.Outcome, error) {
	if refs == nil {
		refs = []metav1.OwnerReference{} // an empty list replaces, null would too, but reads worse
	}
	return c.patch(ctx, key, m, obj, map[string]any{"ownerReferences": refs}, what)
}

func (c *Controller) removeFinalizer(ctx context.Context, key loop.Key, m *monitor, obj client.Object, finalizer string) (loop.Outcome, error) {
	left := []string{}
	for _, f := range obj.GetFinalizers() {
		if f != finalizer {
			left = append(left, f)
		}
	}
	return c.patch(ctx, key, m, obj, map[string]any{"finalizers": left}, fmt.Sprintf("took the finalizer %s away", finalizer))
}

// patch changes metadata of any kind, if the object is as it was seen.
func (c *Controller) patch(ctx context.Context, key loop.Key, m *monitor, obj client.Object, metadata map[string]any, what string) (loop.Outcome, error) {
	metadata["uid"], metadata["resourceVersion"] = obj.GetUID(), obj.GetResourceVersion()
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return loop.Outcome{}, err
	}
	got, err := c.client.Patch(ctx, m.info.Resource, obj.GetNamespace(), obj.GetName(), types.MergePatchType, data)
	switch {
	case apierrors.IsNotFound(err):
		return loop.Done(), nil
	case err != nil:
		return loop.Outcome{}, err
	}
	if got.GetDeletionTimestamp() == nil || len(got.GetFinalizers()) > 0 { // else it is gone, and no view will show this
		c.written.Note(key, m.view, got)
	}
	return loop.Acted("%s", what), nil
}

// circular tells whether a dependent of obj waits for its own dependents to
// go, as obj is about to.
func (c *Controller) circular(obj client.Object) bool {
	for _, d := range c.kinds.dependents(obj.GetUID()) {
		if d.GetDeletionTimestamp() != nil && finalizing(d, metav1.FinalizerDeleteDependents) {
			return true
		}
	}
	return false
}

func blockedBy(dependent client.Object, owner types.UID) bool {
	return slices.ContainsFunc(dependent.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
	})
}

func blocks(refs []metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion })
}

func unblocked(refs []metav1.OwnerReference) []metav1.OwnerReference {
	refs = slices.Clone(refs)
	no := false
	for i := range refs {
		if refs[i].BlockOwnerDeletion != nil {
			refs[i].BlockOwnerDeletion = &no
		}
	}
	return refs
}
