package replicaset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "replicaset"

// statusEvery is how often the status is written amid a long change of size.
const statusEvery = time.Second

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written
	pace    controllers.Pace // by the number of pods owned

	sets, pods client.View
	kind       schema.GroupVersionKind // of the claims: see NewAs

	mu    sync.Mutex
	memos map[types.UID]*memory // guarded by mu; a memo itself by the loop's one look at a key
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller { return NewAs(opts, Name, kind) }

// NewAs wires the loop for another kind that claims pods in the same way. The
// options' client and recorder show and take its objects as ReplicaSets.
func NewAs(opts controllers.Options, name string, kind schema.GroupVersionKind) *Controller {
	c := &Controller{
		kind:   kind,
		client: opts.Client,
		events: opts.Recorder(),
		sets:   opts.Client.View(client.ReplicaSets, client.ViewOptions{}),
		pods:   opts.Client.View(client.Pods, client.ViewOptions{}),
		memos:  map[types.UID]*memory{},
		// A look costs in proportion to the pods owned. Changes of pods that
		// call for no action (a phase, a readiness) are looked at together.
		pace: controllers.Pace{Few: 100, Each: 20 * time.Microsecond, Most: 500 * time.Millisecond},
	}
	controllers.IndexBySelector(c.sets, controllers.MatchLabels(selectorOf))
	client.IndexByController(c.sets)
	client.IndexByController(c.pods)
	c.Loop = controllers.NewLoop(opts, name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.sets, Changed: c.setChanged},
		controllers.Input{View: c.pods, Changed: c.podChanged},
	)
}

func (c *Controller) setChanged(old, new client.Object) {
	if new == nil || old != nil && old.GetUID() != new.GetUID() {
		c.forget(old)
	}
	if old != nil && new != nil && old.GetGeneration() == new.GetGeneration() && old.GetResourceVersion() != new.GetResourceVersion() {
		// Most likely our own status. Not worth an extra look at once, but
		// somebody else may have written it: look a little later.
		c.lookSoon(controllers.KeyOf(new))
		return
	}
	c.Look(controllers.KeyOf(controllers.Present(old, new)))
}

// podChanged looks at the ReplicaSet that controls a pod, or at those that may
// adopt it.
func (c *Controller) podChanged(old, new client.Object) {
	for _, obj := range []client.Object{old, new} {
		key, ok := controllers.ControllerKey(obj, c.kind.Kind)
		switch {
		case !ok:
		case old != nil && new != nil && old.GetDeletionTimestamp() == nil && new.GetDeletionTimestamp() == nil && !controllers.Ended(new.(*corev1.Pod)):
			c.lookSoon(key)
		default:
			c.Look(key)
		}
	}
	controllers.LookAtAdopters(c.Loop, c.sets, new, selectorOf)
}

func selectorOf(rs *appsv1.ReplicaSet) *metav1.LabelSelector { return rs.Spec.Selector }

func (c *Controller) lookSoon(key loop.Key) { c.pace.Look(c.Loop, key) }

func (c *Controller) memo(uid types.UID) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memos[uid]
	if m == nil {
		m = &memory{doomed: map[types.UID]bool{}}
		c.memos[uid] = m
	}
	return m
}

func (c *Controller) forget(rs client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rs != nil {
		delete(c.memos, rs.GetUID())
		c.pace.Note(controllers.KeyOf(rs), 0)
	}
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	rs := client.In[*appsv1.ReplicaSet](c.sets, key.Namespace, key.Name)
	if rs == nil {
		return loop.Done(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("spec.selector: %w", err)
	}
	own := controllers.Claim(rs, selector, controllers.Candidates[*corev1.Pod](c.pods, rs, rs.Spec.Selector))
	switch {
	case own.Release != nil:
		pod, err := controllers.Release(ctx, c.client, rs, client.Pods, *own.Release)
		return c.written.Outcome(key, c.pods, pod, err, "release", "pod %s", (*own.Release).Name)
	case own.Adopt != nil && !controllers.Ended(*own.Adopt):
		pod, err := controllers.Adopt(ctx, c.client, client.ReplicaSets, rs, c.kind, client.Pods, *own.Adopt)
		return c.written.Outcome(key, c.pods, pod, err, "adopt", "pod %s", (*own.Adopt).Name)
	}
	c.pace.Note(key, len(own.Owned))
	w := world{rs: rs, pods: own.Owned, now: time.Now(), memo: c.memo(rs.UID), uncounted: c.kind != kind}
	w.usage = func() map[string]int { return c.usage(rs) }
	w.memo.forget(own.Owned)
	w.memo.pending = slices.DeleteFunc(w.memo.pending, func(name string) bool { return c.pods.Get(key.Namespace, name) != nil })
	return c.act(ctx, key, w, plan(w))
}

// act takes a step. See the package comment on why it may be many writes.
func (c *Controller) act(ctx context.Context, key loop.Key, w world, s step) (loop.Outcome, error) {
	m := w.memo
	var b *batch
	switch {
	case s.create > 0:
		b = c.create(ctx, w, s.create)
		m.pending, m.failing = b.names, failedCreate
		if b.strange {
			m.salt++
		}
		if b.revision != "" {
			c.written.NoteRevision(key, c.pods, b.revision)
		}
	case len(s.remove) > 0:
		b = c.remove(ctx, w.rs, s.remove)
		m.failing = failedDelete
		maps.Copy(m.doomed, b.doomed)
	default:
		m.pending, m.failure = nil, nil
		live, terminating := w.sort()
		if status := w.status(live, terminating); status != nil {
			return c.writeStatus(ctx, key, w, status)
		}
		if s.after > 0 {
			return loop.DoneUntil(s.after), nil
		}
		return loop.Done(), nil
	}
	if ctx.Err() != nil {
		return loop.Outcome{}, context.Cause(ctx)
	}
	if controllers.NamespaceEnding(b.failure) {
		return controllers.WaitForNamespace(key.Namespace)
	}
	m.failure = nil
	if controllers.Refused(b.failure) {
		m.failure = b.failure
	}
	// The counts of s are from before the batch: right enough amid a long
	// change, and with a failure, which keeps the loop from getting further.
	if due := time.Since(m.statusAt) >= statusEvery; due && (s.status != nil || m.failure != nil) || m.failure != nil {
		live, terminating := w.sort()
		if status := w.status(live, terminating); status != nil {
			if _, err := c.writeStatus(ctx, key, w, status); err != nil {
				return loop.Outcome{}, err
			}
		}
	}
	if b.failure != nil {
		return loop.Outcome{}, b.failure
	}
	if s.create > 0 {
		return loop.Acted("created %d pods", b.done), nil
	}
	return loop.Acted("deleted %d pods", b.done), nil
}

func (c *Controller) writeStatus(ctx context.Context, key loop.Key, w world, status *appsv1.ReplicaSetStatus) (loop.Outcome, error) {
	rs := w.rs.DeepCopy()
	rs.Status = *status
	w.memo.statusAt = w.now
	got, err := c.client.Update(ctx, client.ReplicaSets, rs, "status")
	return c.written.Outcome(key, c.sets, got, err, "update", "the status")
}

// usage counts, by node, the live pods of this ReplicaSet and of those that
// the same Deployment controls: of two pods on one node, one can be spared
// sooner.
func (c *Controller) usage(rs *appsv1.ReplicaSet) map[string]int {
	related := []*appsv1.ReplicaSet{rs}
	if ref := metav1.GetControllerOfNoCopy(rs); ref != nil {
		related = client.Indexed[*appsv1.ReplicaSet](c.sets, client.ByController, string(ref.UID))
	}
	count := map[string]int{}
	for _, set := range related {
		for _, pod := range client.Indexed[*corev1.Pod](c.pods, client.ByController, string(set.UID)) {
			if pod.DeletionTimestamp == nil && !controllers.Ended(pod) {
				count[pod.Spec.NodeName]++
			}
		}
	}
	return count
}
