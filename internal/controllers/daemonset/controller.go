package daemonset

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
	"github.com/setpoint-project/setpoint/internal/controllers/revisions"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "daemonset"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written
	pace    controllers.Pace // by nodes

	sets, pods, nodes, history client.View

	mu    sync.Mutex
	memos map[types.UID]*memory // guarded by mu; a memo itself by the loop's one look at a key
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:  opts.Client,
		events:  opts.Recorder(),
		sets:    opts.Client.View(client.DaemonSets, client.ViewOptions{}),
		pods:    opts.Client.View(client.Pods, client.ViewOptions{}),
		nodes:   opts.Client.View(client.Nodes, client.ViewOptions{}),
		history: opts.Client.View(client.ControllerRevisions, client.ViewOptions{}),
		memos:   map[types.UID]*memory{},
		pace:    controllers.Pace{Few: 50, Each: 50 * time.Microsecond, Most: 500 * time.Millisecond},
	}
	client.IndexByController(c.pods)
	client.IndexByController(c.history)
	controllers.IndexBySelector(c.sets, controllers.MatchLabels(selectorOf))
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

func selectorOf(s *appsv1.DaemonSet) *metav1.LabelSelector { return s.Spec.Selector }

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	owned := func(old, new client.Object) {
		for _, obj := range []client.Object{old, new} {
			if key, ok := controllers.ControllerKey(obj, kind.Kind); ok {
				c.pace.Look(c.Loop, key)
			}
		}
		controllers.LookAtAdopters(c.Loop, c.sets, new, selectorOf)
	}
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.sets, Changed: c.setChanged},
		controllers.Input{View: c.pods, Changed: owned},
		controllers.Input{View: c.history, Changed: owned},
		controllers.Input{View: c.nodes, Changed: c.nodeChanged},
	)
}

func (c *Controller) setChanged(old, new client.Object) {
	if old != nil && (new == nil || old.GetUID() != new.GetUID()) {
		c.pace.Note(controllers.KeyOf(old), 0)
		c.mu.Lock()
		delete(c.memos, old.GetUID())
		c.mu.Unlock()
	}
	c.Look(controllers.KeyOf(controllers.Present(old, new)))
}

// nodeChanged looks at the sets for which a node has come, gone or become
// another. A heartbeat makes no difference.
func (c *Controller) nodeChanged(old, new client.Object) {
	before, _ := old.(*corev1.Node)
	after, _ := new.(*corev1.Node)
	if before != nil && after != nil && before != after && equality.Semantic.DeepEqual(before.Labels, after.Labels) &&
		equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) {
		return
	}
	for _, set := range client.Listed[*appsv1.DaemonSet](c.sets, "") {
		c.pace.Look(c.Loop, controllers.KeyOf(set))
	}
}

func (c *Controller) memo(set *appsv1.DaemonSet) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memos[set.UID]
	if m == nil {
		m = &memory{}
		c.memos[set.UID] = m
	}
	return m
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	set := client.In[*appsv1.DaemonSet](c.sets, key.Namespace, key.Name)
	if set == nil {
		return loop.Done(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("spec.selector: %w", err)
	}
	own := controllers.Claim(set, selector, controllers.Candidates[*corev1.Pod](c.pods, set, set.Spec.Selector))
	revs := controllers.Claim(set, selector, controllers.Candidates[*appsv1.ControllerRevision](c.history, set, set.Spec.Selector))
	switch {
	case own.Release != nil:
		got, err := controllers.Release(ctx, c.client, set, client.Pods, *own.Release)
		return c.written.Outcome(key, c.pods, got, err, "release", "pod %s", (*own.Release).Name)
	case own.Adopt != nil:
		got, err := controllers.Adopt(ctx, c.client, client.DaemonSets, set, kind, client.Pods, *own.Adopt)
		return c.written.Outcome(key, c.pods, got, err, "adopt", "pod %s", (*own.Adopt).Name)
	case revs.Release != nil:
		got, err := controllers.Release(ctx, c.client, set, client.ControllerRevisions, *revs.Release)
		return c.written.Outcome(key, c.history, got, err, "release", "revision %s", (*revs.Release).Name)
	case revs.Adopt != nil:
		got, err := controllers.Adopt(ctx, c.client, client.DaemonSets, set, kind, client.ControllerRevisions, *revs.Adopt)
		return c.written.Outcome(key, c.history, got, err, "adopt", "revision %s", (*revs.Adopt).Name)
	}
	want, err := revisions.New(set, kind, set.Spec.Template.Labels, &set.Spec.Template, set.Status.CollisionCount)
	if err != nil {
		return loop.Outcome{}, err
	}
	want.Labels[appsv1.ControllerRevisionHashLabelKey] = want.Labels[revisions.HashLabel]
	now, next := revisions.Next(want, revs.Owned)
	if next != (revisions.Step{}) && set.DeletionTimestamp == nil {
		return c.keep(ctx, key, set, next)
	}
	w := world{
		set: set, pods: own.Owned, nodes: client.Listed[*corev1.Node](c.nodes, ""),
		hash: now.Labels[appsv1.ControllerRevisionHashLabelKey], now: time.Now(), memo: c.memo(set),
	}
	c.pace.Note(key, len(w.nodes))
	w.remember()
	s := plan(w)
	if len(s.remove) > 0 || len(s.create) > 0 {
		return c.act(ctx, key, w, s)
	}
	if s.status != nil {
		return c.writeStatus(ctx, key, set, s.status)
	}
	if old := revisions.Surplus(revs.Owned, w.uses, historyLimit(set)); old != nil && set.DeletionTimestamp == nil {
		return c.keeper().Forget(ctx, old)
	}
	if s.wait != "" {
		return loop.WaitFor(s.on, "%s", s.wait).In(s.after), nil
	}
	return loop.DoneUntil(s.after), nil
}

// uses tells whether the set or one of its pods is of a revision.
func (w *world) uses(rev *appsv1.ControllerRevision) bool {
	hash := rev.Labels[appsv1.ControllerRevisionHashLabelKey]
	return hash == w.hash || slices.ContainsFunc(w.pods, func(p *corev1.Pod) bool { return revisionOf(p) == hash })
}

func historyLimit(set *appsv1.DaemonSet) int32 {
	if set.Spec.RevisionHistoryLimit == nil {
		return 10
	}
	return *set.Spec.RevisionHistoryLimit
}

func (c *Controller) keeper() *revisions.Keeper {
	return &revisions.Keeper{Client: c.client, Written: &c.written, History: c.history}
}

// keep writes a revision, or counts a collision.
func (c *Controller) keep(ctx context.Context, key loop.Key, set *appsv1.DaemonSet, next revisions.Step) (loop.Outcome, error) {
	return c.keeper().Keep(ctx, key, set, next, set.Status.CollisionCount, func(n *int32) (loop.Outcome, error) {
		st := set.Status.DeepCopy()
		st.CollisionCount = n
		return c.writeStatus(ctx, key, set, st)
	})
}

func (c *Controller) writeStatus(ctx context.Context, key loop.Key, set *appsv1.DaemonSet, status *appsv1.DaemonSetStatus) (loop.Outcome, error) {
	changed := *set // Update copies what it is given
	changed.Status = *status
	got, err := c.client.Update(ctx, client.DaemonSets, &changed, "status")
	return c.written.Outcome(key, c.sets, got, err, "update", "the status")
}

// act takes a step. See podbatch on why it may be many writes.
func (c *Controller) act(ctx context.Context, key loop.Key, w world, s step) (loop.Outcome, error) {
	pods := podbatch.Writer{Client: c.client, Events: c.events, Owner: w.set}
	for _, pod := range s.failed {
		node := nodeOf(pod)
		if pod.Status.Phase == corev1.PodFailed {
			w.memo.noteFailure(node, w.now)
			c.events.Event(w.set, corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it", pod.Namespace, pod.Name, node)
		} else {
			c.events.Event(w.set, corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s/%s on node %s, will try to delete it", pod.Namespace, pod.Name, node)
		}
	}
	gone := pods.Remove(ctx, &w.memo.pods, s.remove)
	made := pods.Create(ctx, &w.memo.pods, w.newPods(s.create))
	if made.Strange {
		w.memo.salt++
	}
	if made.Revision != "" {
		c.written.NoteRevision(key, c.pods, made.Revision)
	}
	if ctx.Err() != nil {
		return loop.Outcome{}, context.Cause(ctx)
	}
	if controllers.NamespaceEnding(made.Failure) {
		return controllers.WaitForNamespace(key.Namespace)
	}
	failure := made.Failure
	if failure == nil {
		failure = gone.Failure
	}
	if failure == nil {
		return loop.Acted("created %d and deleted %d pods", made.Done, gone.Done), nil
	}
	if controllers.Refused(failure) && s.status != nil {
		if _, err := c.writeStatus(ctx, key, w.set, s.status); err != nil {
			return loop.Outcome{}, err
		}
	}
	return loop.Outcome{}, failure
}
