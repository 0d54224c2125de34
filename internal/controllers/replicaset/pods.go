package replicaset

import (
	"context"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
)

var kind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// podOf is the pod that a ReplicaSet's template describes.
func (c *Controller) podOf(rs *appsv1.ReplicaSet, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			GenerateName:    rs.Name + "-",
			Namespace:       rs.Namespace,
			Labels:          maps.Clone(rs.Spec.Template.Labels),
			Annotations:     maps.Clone(rs.Spec.Template.Annotations),
			Finalizers:      slices.Clone(rs.Spec.Template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, c.kind)},
		},
		Spec: rs.Spec.Template.Spec, // copied by the client
	}
}

// batch is the outcome of many writes.
type batch struct {
	mu       sync.Mutex
	done     int
	revision string             // the latest written
	failure  error              // the first
	names    []string           // of creations that nobody knows of
	doomed   map[types.UID]bool // see memory
	strange  bool               // a name was taken by somebody else's pod
}

// create makes n pods. As long as creations fail, it tries few: 1, 2, 4 and so
// on, so that a ReplicaSet that can have no pod does not ask a thousand times.
func (c *Controller) create(ctx context.Context, w world, n int) *batch {
	b := &batch{}
	names := newNamer(w)
	pending := w.memo.pending
	next := func() attempt {
		if len(pending) > 0 {
			name := pending[0]
			pending = pending[1:]
			return attempt{name, true}
		}
		return attempt{names.next(), false}
	}
	pace := max(1, w.memo.pace)
	for ; n > 0 && b.failure == nil && ctx.Err() == nil; pace = min(2*pace, batchLimit) {
		size := min(pace, n)
		round := make([]attempt, size)
		for i := range round {
			round[i] = next()
		}
		podbatch.Parallel(round, func(a attempt) { c.createOne(ctx, w.rs, a, b) })
		n -= size
	}
	b.names = append(b.names, pending...)
	if w.memo.pace = pace; b.failure != nil {
		w.memo.pace = 1
	}
	return b
}

// attempt to create a pod.
type attempt struct {
	name string
	// again: it was tried before and the answer lost. It may be there, whatever
	// else than "created" or "exists" the server says now.
	again bool
}

func (c *Controller) createOne(ctx context.Context, rs *appsv1.ReplicaSet, a attempt, b *batch) {
	name := a.name
	obj, err := c.client.Create(ctx, client.Pods, c.podOf(rs, name))
	if apierrors.IsAlreadyExists(err) {
		// Ours, when an answer was lost or another copy of the loop was
		// quicker.
		there, getErr := c.client.Get(ctx, client.Pods, rs.Namespace, name)
		switch {
		case getErr == nil && metav1.IsControlledBy(there, rs):
			obj, err = there, nil
		case getErr == nil:
			b.mu.Lock()
			b.strange = true
			b.mu.Unlock()
			return
		}
	} else if err == nil {
		c.events.Event(rs, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.done++
		if client.Later(obj.GetResourceVersion(), b.revision) {
			b.revision = obj.GetResourceVersion()
		}
		return
	}
	if a.again || !controllers.Answered(err) {
		b.names = append(b.names, name)
	}
	if b.failure == nil {
		b.failure = err
		if controllers.Refused(err) && !controllers.NamespaceEnding(err) {
			c.events.Event(rs, corev1.EventTypeWarning, failedCreate, "Error creating: %v", err)
		}
	}
}

// remove deletes pods.
func (c *Controller) remove(ctx context.Context, rs *appsv1.ReplicaSet, pods []*corev1.Pod) *batch {
	b := &batch{doomed: map[types.UID]bool{}}
	podbatch.Parallel(pods, func(pod *corev1.Pod) {
		if ctx.Err() != nil {
			return
		}
		err := c.client.Delete(ctx, client.Pods, pod.Namespace, pod.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if err == nil {
			c.events.Event(rs, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %s", pod.Name)
		}
		gone := err == nil || apierrors.IsNotFound(err)
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case gone:
			b.done++
			b.doomed[pod.UID] = true
			return
		case !controllers.Answered(err):
			b.doomed[pod.UID] = false
		}
		if b.failure == nil {
			b.failure = err
			if controllers.Refused(err) {
				c.events.Event(rs, corev1.EventTypeWarning, failedDelete, "Error deleting: %v", err)
			}
		}
	})
	return b
}
