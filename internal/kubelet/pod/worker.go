package pod

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/loop"
)

// Worker looks after one pod.
type Worker struct {
	deps *Deps
	uid  types.UID

	wake    chan struct{}
	results chan func()
	// stale: the runtime changed since the last picture of it.
	stale atomic.Bool
	// news: an object that the pod refers to changed.
	news atomic.Bool
	// evicted, when not nil, is why the pod has to leave.
	evicted atomic.Pointer[status.Failure]

	// What follows belongs to the goroutine of Run.

	ctx   context.Context // of Run, for steps
	pod   *v1.Pod         // as last seen
	ahead *v1.Pod         // what a write returned, until the view shows it
	gone  bool            // the API server has no such pod any more
	state *cri.State
	ended *cri.State // the picture when all had ended, for the last status
	busy  map[string]context.CancelFunc

	mounted bool
	renew   time.Time
	brought time.Time // when the volumes were last brought up to date, by the clock on the wall
	remount bool      // an object changed since the volumes were brought up to date
	held    *v1.Pod   // whose references are watched

	stop     *Stop
	failed   *status.Failure
	admitted bool
	deleted  bool // the API server was asked to delete it

	images   map[string]Image // of containers
	volumes  map[string]Image // of volumes that show one
	failures map[string]*failure
	crashes  map[string]*crash
	health   map[string]*watchers
	starting string // name of the container whose start, with its postStart hook, goes on
	kills    map[string]*killing
	messages map[string]string
	// made are the resources with which containers were made, or resized to,
	// by id.
	made        map[string]v1.ResourceRequirements
	restart     map[string]bool // containers, by id, that were stopped to be resized
	pending     *status.Pending // a resize for which there is no room
	resizeError string          // of the last try to resize
	seen        string          // resource version with which volumes were brought up to date
}

// New makes a worker of a pod.
func New(deps *Deps, pod *v1.Pod) *Worker {
	w := &Worker{
		deps: deps, uid: pod.UID, pod: pod,
		wake: make(chan struct{}, 1), results: make(chan func(), 16),
		busy: map[string]context.CancelFunc{}, images: map[string]Image{}, volumes: map[string]Image{}, failures: map[string]*failure{},
		crashes: map[string]*crash{}, health: map[string]*watchers{},
		kills: map[string]*killing{}, messages: map[string]string{}, made: map[string]v1.ResourceRequirements{}, restart: map[string]bool{},
	}
	w.stale.Store(true)
	return w
}

// Wake asks for a look soon: the pod's object changed.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// WakeRuntime asks for a look soon: the pod changed in the runtime.
func (w *Worker) WakeRuntime() {
	w.stale.Store(true)
	w.Wake()
}

// WakeObject asks for a look soon: an object that the pod refers to changed.
func (w *Worker) WakeObject() {
	w.news.Store(true)
	w.Wake()
}

// Evict ends the pod, for a reason of the node's.
func (w *Worker) Evict(why status.Failure) {
	if w.evicted.CompareAndSwap(nil, &why) {
		w.Wake()
	}
}

// Run looks after the pod until nothing of it is left anywhere, or ctx ends.
// Then containers run on.
func (w *Worker) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer w.close(cancel)
	w.ctx = ctx
	for {
		next, done := w.look(ctx)
		if done {
			return
		}
		if !w.sleep(ctx, next) {
			return
		}
	}
}

// close ends what the worker started.
func (w *Worker) close(cancel context.CancelFunc) {
	cancel()
	w.deps.release(context.Background(), w.uid)
	for len(w.busy) > 0 {
		(<-w.results)() // each step hands back one result, also when it is cut short
	}
	for _, h := range w.health {
		h.close()
	}
}

// sleep waits for something to look at, applies results and tells whether to
// go on.
func (w *Worker) sleep(ctx context.Context, next time.Time) bool {
	var timer <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(max(time.Until(next), time.Millisecond))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.wake:
	case <-timer:
	case apply := <-w.results:
		apply()
	}
	for { // what came meanwhile is looked at together
		select {
		case apply := <-w.results:
			apply()
		default:
			return ctx.Err() == nil
		}
	}
}

// takeNews begins anew what failed for want of an object that changed now.
func (w *Worker) takeNews() {
	w.remount = true
	if !w.mounted {
		delete(w.failures, held(MountVolumes))
	}
	for _, f := range w.failures {
		if f.wait.Reason == createConfigError {
			f.until = time.Time{}
		}
	}
}

// retry is when to look again after the runtime could not be asked.
const retry = time.Second

// look observes, plans and starts the next steps.
func (w *Worker) look(ctx context.Context) (next time.Time, done bool) {
	began := time.Now()
	w.readPod()
	if w.stale.Swap(false) || w.state == nil {
		st, err := cri.Observe(ctx, w.deps.Runtime, string(w.uid), w.state)
		if err != nil {
			w.stale.Store(true)
			w.observe(loop.WaitFor("container runtime", "it answers"), err, began)
			return time.Now().Add(retry), false
		}
		w.deps.orderIPs(st)
		w.state = st
	}
	if w.news.Swap(false) {
		w.takeNews()
	}
	w.harvest()
	w.decide()
	in := w.input()
	plan := Make(in)
	if plan.Completed && w.stop == nil {
		w.stop = &Stop{Deadline: time.Now().Add(grace(w.pod))}
		in = w.input()
		plan = Make(in)
	}
	if plan.Ended && w.ended == nil {
		w.ended = w.state
	}
	for _, a := range plan.Actions {
		w.act(a)
	}
	w.shorten()
	w.report(plan)
	if w.gone && plan.Ended && w.state.Empty() && !in.Dirty && len(w.busy) == 0 {
		return time.Time{}, true
	}
	w.observe(w.outcome(plan), nil, began)
	return w.next(plan), false
}

// next is when to look again whatever happens.
func (w *Worker) next(plan Plan) time.Time {
	t := plan.Wake
	sooner := func(at time.Time) {
		if !at.IsZero() && (t.IsZero() || at.Before(t)) {
			t = at
		}
	}
	if w.stop == nil {
		if w.mounted && !w.renew.IsZero() {
			// Tokens end by the clock on the wall, which may be set forward;
			// timers know nothing of that.
			sooner(earlier(w.renew, time.Now().Add(clockEvery)))
			if f := w.failures[held(MountVolumes)]; f != nil {
				sooner(f.until)
			}
		}
		if w.pending != nil {
			sooner(time.Now().Add(pendingEvery))
		}
		if at := w.deadline(); !at.IsZero() {
			sooner(earlier(at, time.Now().Add(clockEvery)))
		}
	}
	return t
}

// tokensDue tells whether the tokens in volumes that were brought up to date at
// a time have to be renewed: at renew (zero: there are none), and when the
// clock on the wall was set back, for then they are tokens of the future, which
// nobody takes.
func tokensDue(renew, brought, now time.Time) bool {
	return !renew.IsZero() && (!now.Before(renew) || now.Add(clockEvery/2).Before(brought))
}

// clockEvery is how often the clock on the wall is looked at by who waits for a
// time that others have named.
const clockEvery = time.Minute

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// readPod takes the pod over from the view.
func (w *Worker) readPod() {
	o := w.deps.Pods.Get(w.pod.Namespace, w.pod.Name)
	if o == nil || o.GetUID() != w.uid {
		w.gone = true
		return
	}
	pod := o.(*v1.Pod)
	if w.ahead != nil && older(pod, w.ahead) {
		pod = w.ahead
	} else {
		w.ahead = nil
	}
	w.pod = w.allocate(pod)
	if w.held == nil || w.held.Generation != pod.Generation {
		w.held = pod
		w.deps.hold(w.ctx, pod)
	}
}

// older tells whether a shows an earlier revision than b.
func older(a, b client.Object) bool {
	x, y := a.GetResourceVersion(), b.GetResourceVersion()
	return len(x) < len(y) || len(x) == len(y) && x < y
}

// decide settles whether the pod is to end.
func (w *Worker) decide() {
	now := time.Now()
	p := w.pod
	switch {
	case w.gone || p.DeletionTimestamp != nil:
		g := max(grace(p), time.Second)
		if w.gone {
			// Removed by force: nobody waits for it, and a small grace is all
			// it has. See
			// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-forced.
			g = min(g, minGrace)
		}
		deadline := now.Add(g)
		if w.stop == nil {
			w.stop = &Stop{Deadline: deadline}
		} else if !w.stop.Delete && w.state.Alive() && deadline.Before(w.stop.Deadline) {
			w.stop.Deadline = deadline
		} else if (w.gone || p.DeletionGracePeriodSeconds != nil) && deadline.Before(w.stop.Deadline) {
			w.stop.Deadline = deadline // asked again, for a shorter grace
		}
		w.stop.Delete, w.stop.Gone = true, w.gone || w.deleted
	case w.stop != nil:
	case p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed:
		w.stop = &Stop{Deadline: now.Add(grace(p))}
	case w.failed != nil:
		w.stop = &Stop{Deadline: now.Add(grace(p))}
	default:
		w.admit()
		if at := w.deadline(); w.failed == nil && !at.IsZero() && !now.Before(at) {
			w.failed = &status.Failure{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
			w.deps.Events.Pod(p, "", v1.EventTypeNormal, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
		}
		if e := w.evicted.Load(); w.failed == nil && e != nil {
			w.failed = e
			w.deps.Events.Pod(p, "", v1.EventTypeWarning, e.Reason, "%s", e.Message)
			w.stop = &Stop{Deadline: now.Add(minGrace)} // what is short is short now
		} else if w.failed != nil {
			w.stop = &Stop{Deadline: now.Add(grace(p))}
		}
	}
	if w.stop != nil {
		w.cancel(Action{Kind: MountVolumes})
		w.cancel(Action{Kind: StartContainer})
		for i := range p.Spec.Containers {
			w.cancel(Action{Kind: PullImage, Container: p.Spec.Containers[i].Name})
		}
		for i := range p.Spec.InitContainers {
			w.cancel(Action{Kind: PullImage, Container: p.Spec.InitContainers[i].Name})
		}
		for i := range p.Spec.Volumes {
			w.cancel(Action{Kind: PullVolume, Volume: p.Spec.Volumes[i].Name})
		}
	}
}

// cancel cuts a step short that is being taken.
func (w *Worker) cancel(a Action) {
	if cancel := w.busy[a.Key()]; cancel != nil {
		cancel()
	}
}

// admit asks the node once, for a pod that has not started by what it says.
func (w *Worker) admit() {
	if w.admitted {
		return
	}
	w.admitted = true
	if w.pod.Status.StartTime == nil && w.deps.Admit != nil {
		if f := w.deps.Admit(w.pod, !w.state.Empty()); f != nil {
			w.failed = f
			w.deps.Events.Pod(w.pod, "", v1.EventTypeWarning, f.Reason, "%s", f.Message)
		}
	}
}

// deadline is when the pod has been active for as long as it may; zero: never.
func (w *Worker) deadline() time.Time {
	s, start := w.pod.Spec.ActiveDeadlineSeconds, w.pod.Status.StartTime
	if s == nil || start == nil {
		return time.Time{}
	}
	return start.Add(time.Duration(*s) * time.Second)
}

// input is what the plan follows from.
func (w *Worker) input() Input {
	in := Input{
		Now: time.Now(), Pod: w.pod, State: w.state, Stop: w.stop, Mounted: w.mounted,
		Images: w.images, Volumes: w.volumes, Holds: map[string]Hold{}, Health: map[string]Health{}, Busy: make(map[string]bool, len(w.busy)),
	}
	for k := range w.busy {
		in.Busy[k] = true
	}
	for name, f := range w.failures {
		in.Holds[name] = Hold{Until: f.until, Wait: f.wait}
	}
	for name, c := range w.crashes {
		if c.delay > 0 && in.Now.Before(c.until) || in.Holds[name].Wait.Reason == "" && c.delay > 0 {
			in.Holds[name] = Hold{Until: c.until, Wait: c.wait}
		}
	}
	for id, h := range w.health {
		in.Health[id] = h.health(w.starting)
	}
	_, in.Resize = w.resources()
	if w.stop != nil {
		in.Devices = w.deps.Devices.Holds(w.uid)
		in.Dirty = w.deps.Volumes.Exists(w.uid) || w.deps.Cgroups != nil && w.deps.Cgroups.Exists(w.uid) || w.logsExist()
		in.Mounted = w.mounted || !w.stop.Delete && w.deps.Volumes.Made(w.uid)
		w.stop.Reported = w.reported()
	} else if w.mounted && w.refreshDue(in.Now) {
		// Brought up to date beside the running containers: not a reason to
		// keep the next one from starting.
		w.act(Action{Kind: MountVolumes})
		in.Busy[string(MountVolumes)] = true
	}
	return in
}

// refreshDue tells whether what volumes show may have changed: an object, the
// pod's own labels and annotations, or a token is old.
func (w *Worker) refreshDue(now time.Time) bool {
	if w.busy[string(MountVolumes)] != nil || !volume.Changing(w.pod) {
		return false
	}
	if f := w.failures[held(MountVolumes)]; f != nil && now.Before(f.until) {
		return false
	}
	return w.remount || tokensDue(w.renew, w.brought, now.Round(0)) || metaVersion(w.pod) != w.seen
}

func (w *Worker) observe(o loop.Outcome, err error, began time.Time) {
	if err != nil {
		w.deps.Log.Info("looked", "loop", "kubelet", "key", w.pod.Namespace+"/"+w.pod.Name, "error", err)
	}
	if w.deps.Observe != nil {
		w.deps.Observe(loop.Key{Namespace: w.pod.Namespace, Name: w.pod.Name}, o, err, time.Since(began))
	}
}

// outcome says in a line what the pod waits for.
func (w *Worker) outcome(plan Plan) loop.Outcome {
	if len(plan.Actions) > 0 {
		a := plan.Actions[0]
		if a.Container != "" {
			return loop.Acted("%s %s", a.Kind, a.Container)
		}
		return loop.Acted("%s", a.Kind)
	}
	for k := range w.busy {
		return loop.WaitFor("container runtime", "%s", k)
	}
	for name, wait := range plan.Waiting {
		return loop.WaitFor("container "+name, "%s: %s", wait.Reason, wait.Message)
	}
	for name, f := range w.failures {
		if kind, ok := strings.CutPrefix(name, held("")); ok && time.Now().Before(f.until) {
			return loop.WaitFor("its next try", "could not %s: %s", kind, f.wait.Message)
		}
	}
	return loop.Done()
}
