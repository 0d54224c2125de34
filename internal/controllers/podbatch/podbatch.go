// Package podbatch writes many pods at once for a loop that owns them: it makes
// them in parallel, but carefully as long as the server refuses, and deletes
// them, and remembers what the loop's view may not show yet.
//
//	m := &podbatch.Memory{}                     // one for each owner
//	w := podbatch.Writer{Client: c, Events: e, Owner: job}
//	got := w.Create(ctx, m, pods)               // pods have their names
//	written.NoteRevision(key, view, got.Revision)
//
// Names are the caller's, and are to be the same when the same pod is asked for
// again: then a creation whose answer was lost finds its own pod. They are to
// be others once that pod is gone: see Places. Pods are
// independent of each other, so a crash between any two writes leaves a state
// like any other.
//
// Concurrency: one owner's Memory belongs to the one look at its key.
package podbatch

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

const (
	// Limit bounds the pods of one batch, so that one large owner does not
	// keep others waiting.
	Limit = 500
	// writers is how many pods are written at the same time: enough for the
	// store's group commit, few enough to leave others their turn.
	writers = 32

	failedCreate = "FailedCreate"
	failedDelete = "FailedDelete"
)

// Memory is what is known of an owner's pods and may not be in a view yet. It
// is lost in a crash, and nothing depends on it but how many useless requests
// are made. The zero value is ready.
type Memory struct {
	// doomed are pods whose deletion was asked for: true when the server has
	// agreed, false when its answer was lost.
	doomed map[types.UID]bool
	pace   int
}

// Result is the outcome of a batch.
type Result struct {
	Done     int    // pods made, deleted or changed
	Revision string // the latest written, "" for deletions
	Failure  error  // the first
	Strange  bool   // a name was taken by somebody else's pod
}

// Writer writes pods for an owner.
type Writer struct {
	Client client.Interface
	Events client.Recorder
	Owner  client.Object
}

// Doomed tells whether a pod's deletion has been asked for and agreed to.
func (m *Memory) Doomed(pod *corev1.Pod) bool { return m.doomed[pod.UID] }

// Asked tells whether a pod's deletion has been asked for, even without an
// answer.
func (m *Memory) Asked(pod *corev1.Pod) bool { _, ok := m.doomed[pod.UID]; return ok }

// Forget drops what the view shows: pods are all that it has of the owner.
func (m *Memory) Forget(pods []*corev1.Pod) {
	if len(m.doomed) == 0 {
		return
	}
	still := make(map[types.UID]bool, len(m.doomed))
	for _, pod := range pods {
		if doomed, ok := m.doomed[pod.UID]; ok && pod.DeletionTimestamp == nil {
			still[pod.UID] = doomed
		}
	}
	m.doomed = still
}

// Create makes pods. As long as creations fail it tries few: 1, 2, 4 and so
// on, so that an owner that may have no pod does not ask a thousand times.
func (w Writer) Create(ctx context.Context, m *Memory, pods []*corev1.Pod) Result {
	b := &batch{Writer: w, memory: m}
	m.pace = max(1, m.pace)
	for len(pods) > 0 && b.Failure == nil && ctx.Err() == nil {
		size := min(m.pace, len(pods))
		Parallel(pods[:size], func(pod *corev1.Pod) { b.create(ctx, pod) })
		pods = pods[size:]
		m.pace = min(2*m.pace, Limit)
	}
	if b.Failure != nil {
		m.pace = 1
	}
	return b.Result
}

// Remove deletes pods.
func (w Writer) Remove(ctx context.Context, m *Memory, pods []*corev1.Pod) Result {
	b := &batch{Writer: w, memory: m}
	Parallel(pods, func(pod *corev1.Pod) {
		if ctx.Err() == nil {
			b.remove(ctx, pod)
		}
	})
	return b.Result
}

type batch struct {
	Writer
	memory *Memory
	mu     sync.Mutex
	Result // guarded by mu, and so is memory
}

// adoptable tells whether a pod is nobody's and looks like one that was wanted.
func adoptable(there client.Object, want *corev1.Pod) bool {
	return metav1.GetControllerOfNoCopy(there) == nil && there.GetDeletionTimestamp() == nil && controllers.HasAll(there.GetLabels(), want.Labels)
}

func (b *batch) create(ctx context.Context, pod *corev1.Pod) {
	obj, err := b.Client.Create(ctx, client.Pods, pod)
	if apierrors.IsAlreadyExists(err) {
		// Ours, when an answer was lost or another copy of the loop was
		// quicker; even if it has lost its owner since, and is to be adopted.
		there, getErr := b.Client.Get(ctx, client.Pods, pod.Namespace, pod.Name)
		switch {
		case getErr == nil && (metav1.IsControlledBy(there, b.Owner) || adoptable(there, pod)):
			obj, err = there, nil
		case getErr == nil:
			b.mu.Lock()
			b.Strange = true
			b.mu.Unlock()
			return
		}
	} else if err == nil {
		b.Events.Event(b.Owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", pod.Name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.note(obj)
		return
	}
	b.fail(failedCreate, "creating", err)
}

func (b *batch) remove(ctx context.Context, pod *corev1.Pod) {
	err := b.Client.Delete(ctx, client.Pods, pod.Namespace, pod.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err == nil {
		b.Events.Event(b.Owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %s", pod.Name)
	}
	gone := err == nil || apierrors.IsNotFound(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.memory.doomed == nil {
		b.memory.doomed = map[types.UID]bool{}
	}
	switch {
	case gone:
		b.Done++
		b.memory.doomed[pod.UID] = true
		return
	case !controllers.Answered(err):
		b.memory.doomed[pod.UID] = false
	}
	b.fail(failedDelete, "deleting", err)
}

func (b *batch) note(obj client.Object) {
	b.Done++
	if client.Later(obj.GetResourceVersion(), b.Revision) {
		b.Revision = obj.GetResourceVersion()
	}
}

func (b *batch) fail(reason, doing string, err error) {
	if b.Failure != nil {
		return
	}
	b.Failure = err
	if controllers.Refused(err) && !controllers.NamespaceEnding(err) {
		b.Events.Event(b.Owner, corev1.EventTypeWarning, reason, "Error %s: %v", doing, err)
	}
}

// Parallel calls do for each item, several at the same time.
func Parallel[T any](items []T, do func(T)) {
	if len(items) == 1 {
		do(items[0])
		return
	}
	feed := make(chan T)
	var wg sync.WaitGroup
	for range min(writers, len(items)) {
		wg.Go(func() {
			for item := range feed {
				do(item)
			}
		})
	}
	for _, item := range items {
		feed <- item
	}
	close(feed)
	wg.Wait()
}
