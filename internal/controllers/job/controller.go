package job

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "job"

// catchUp is how long a worker waits for its pictures.
const catchUp = time.Second

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written

	pace controllers.Pace // by pods owned

	jobs, pods client.View

	mu    sync.Mutex
	memos map[types.UID]*memory // guarded by mu; a memo itself by the loop's one look at a key
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client: opts.Client,
		events: opts.Recorder(),
		jobs:   opts.Client.View(client.Jobs, client.ViewOptions{}),
		pods:   opts.Client.View(client.Pods, client.ViewOptions{}),
		memos:  map[types.UID]*memory{},
		pace:   controllers.Pace{Few: 100, Each: 20 * time.Microsecond, Most: 500 * time.Millisecond},
	}
	client.IndexByController(c.pods)
	controllers.IndexBySelector(c.jobs, controllers.MatchLabels(selectorOf))
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.jobs, Changed: c.jobChanged},
		controllers.Input{View: c.pods, Changed: c.podChanged},
	)
}

func (c *Controller) jobChanged(old, new client.Object) {
	if old != nil && (new == nil || old.GetUID() != new.GetUID()) {
		c.forget(old)
	}
	c.Look(controllers.KeyOf(controllers.Present(old, new)))
}

// podChanged looks at the Job that controls a pod, or at those that may adopt
// it.
func (c *Controller) podChanged(old, new client.Object) {
	for _, obj := range []client.Object{old, new} {
		if key, ok := controllers.ControllerKey(obj, "Job"); ok {
			c.pace.Look(c.Loop, key)
		}
	}
	controllers.LookAtAdopters(c.Loop, c.jobs, new, selectorOf)
}

func selectorOf(j *batchv1.Job) *metav1.LabelSelector { return j.Spec.Selector }

func (c *Controller) memo(j *batchv1.Job) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memos[j.UID]
	if m == nil {
		m = &memory{}
		c.memos[j.UID] = m
	}
	return m
}

func (c *Controller) forget(j client.Object) {
	c.pace.Note(controllers.KeyOf(j), 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memos, j.GetUID())
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	j := client.In[*batchv1.Job](c.jobs, key.Namespace, key.Name)
	if j == nil || !isOurs(j) {
		return loop.Done(), nil
	}
	if _, done := IsFinished(j); done {
		c.forget(j)
		return loop.Done(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("spec.selector: %w", err)
	}
	w := world{job: j, memo: c.memo(j)}
	if !w.settled() { // before the pods are read: all that follows is about one picture of them
		fresh, err := c.catchUp(ctx, c.pods, j.ResourceVersion)
		if err != nil || !fresh {
			return loop.WaitFor("", "the view of pods is older than the Job: they might be counted twice").In(catchUp), err
		}
	}
	own := controllers.Claim(j, selector, controllers.Candidates[*corev1.Pod](c.pods, j, j.Spec.Selector))
	switch {
	case own.Release != nil:
		pod := (*own.Release).DeepCopy()
		pod.Finalizers = withoutHold(pod)
		got, err := controllers.Release(ctx, c.client, j, client.Pods, pod)
		return c.written.Outcome(key, c.pods, got, err, "release", "pod %s", pod.Name)
	case own.Adopt != nil:
		pod := w.takeIn(*own.Adopt)
		got, err := controllers.Adopt(ctx, c.client, client.Jobs, j, kind, client.Pods, pod)
		return c.written.Outcome(key, c.pods, got, err, "adopt", "pod %s", pod.Name)
	}
	c.pace.Note(key, len(own.Owned))
	w.pods, w.now = own.Owned, time.Now()
	w.remember()
	s := plan(w)
	if s.behind != "" {
		fresh, err := c.catchUp(ctx, c.jobs, s.behind)
		if err != nil || !fresh {
			return loop.WaitFor("", "the view of Jobs is older than that of pods: too many might be made").In(catchUp), err
		}
		if now := client.In[*batchv1.Job](c.jobs, key.Namespace, key.Name); now == nil || now.ResourceVersion != j.ResourceVersion {
			return loop.Acted("waited for the view of Jobs"), nil
		}
		w.abreast = true
		s = plan(w)
	}
	return c.act(ctx, key, w, s)
}

// catchUp waits until a view shows a revision, though not for long.
func (c *Controller) catchUp(ctx context.Context, v client.View, revision string) (fresh bool, err error) {
	brief, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	err = v.WaitFor(brief, revision)
	if err != nil && ctx.Err() == nil && brief.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

// act takes a step. See podbatch on why it may be many writes.
func (c *Controller) act(ctx context.Context, key loop.Key, w world, s step) (loop.Outcome, error) {
	m := w.memo
	pods := podbatch.Writer{Client: c.client, Events: c.events, Owner: w.job}
	var b podbatch.Result
	var what string
	switch {
	case s.status != nil:
		return c.writeStatus(ctx, key, w, s.status)
	case len(s.free) > 0:
		b, what = pods.Unfinalize(ctx, s.free, batchv1.JobTrackingFinalizer), "took the finalizer from %d pods"
	case len(s.remove) > 0:
		b, what = pods.Remove(ctx, &m.pods, s.remove), "deleted %d pods"
	case len(s.create) > 0:
		// What is counted and gone would be made again. An index that is done
		// needs no more pods, whoever makes one.
		if !isIndexed(w.job) {
			if late, err := controllers.Outdated(ctx, c.client, client.Jobs, w.job); late || err != nil {
				return loop.WaitFor("", "the view of Jobs is late: too many pods might be made").In(catchUp), err
			}
		}
		b, what = pods.Create(ctx, &m.pods, w.newPods(s.create)), "created %d pods"
		if b.Strange {
			m.salt++
		}
	case s.idle != nil:
		return c.writeStatus(ctx, key, w, s.idle)
	default:
		if s.wait != "" {
			return loop.WaitFor(s.on, "%s", s.wait).In(s.after), nil
		}
		return loop.DoneUntil(s.after), nil
	}
	if b.Revision != "" {
		c.written.NoteRevision(key, c.pods, b.Revision)
	}
	if ctx.Err() != nil {
		return loop.Outcome{}, context.Cause(ctx)
	}
	if controllers.NamespaceEnding(b.Failure) {
		return controllers.WaitForNamespace(key.Namespace)
	}
	if b.Failure != nil {
		if controllers.Refused(b.Failure) && s.idle != nil {
			if _, err := c.writeStatus(ctx, key, w, s.idle); err != nil {
				return loop.Outcome{}, err
			}
		}
		return loop.Outcome{}, b.Failure
	}
	if len(s.free) > 0 && b.Revision == "" {
		// They are gone. There is no revision to wait for; the view's event
		// brings us back.
		return loop.WaitFor("Pod "+s.free[0].Namespace+"/"+s.free[0].Name, "it is gone: the view has to show it").In(catchUp), nil
	}
	return loop.Acted(what, b.Done), nil
}

func (c *Controller) writeStatus(ctx context.Context, key loop.Key, w world, status *batchv1.JobStatus) (loop.Outcome, error) {
	j := *w.job // Update copies what it is given
	j.Status = *status
	got, err := client.Update(ctx, c.client, client.Jobs, &j, "status")
	if err != nil {
		return loop.Outcome{}, err
	}
	c.written.Note(key, c.jobs, got)
	w.memo.wrote = &got.Status
	c.tell(w.job, got)
	return loop.Acted("wrote the status"), nil
}

// tell people what has become of a Job.
func (c *Controller) tell(old, new *batchv1.Job) {
	if end, done := IsFinished(new); done {
		if end.Type == batchv1.JobComplete {
			c.events.Event(new, corev1.EventTypeNormal, "Completed", "Job completed")
		} else {
			c.events.Event(new, corev1.EventTypeWarning, end.Reason, "%s", end.Message)
		}
	}
	is := func(j *batchv1.Job) bool {
		c := condition(&j.Status, batchv1.JobSuspended)
		return c != nil && c.Status == corev1.ConditionTrue
	}
	switch {
	case is(new) && !is(old):
		c.events.Event(new, corev1.EventTypeNormal, "Suspended", "Job suspended")
	case !is(new) && is(old):
		c.events.Event(new, corev1.EventTypeNormal, "Resumed", "Job resumed")
	}
}
