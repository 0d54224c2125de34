// Package scheduler is the placement loop: it gives each pod that has no node
// yet one that it fits on, by writing a binding. The kubelet notices.
//
//	views of pods and nodes --key--> inbox --+
//	                                         v
//	    +------------------------ one goroutine owns all -----------------+
//	    | observe -> cluster (sums per node,  queue (pods to place)       |
//	    |            tallies per topology)       | pop                    |
//	    |                  |                     |                        |
//	    |                  +------> placement <--+                        |
//	    |                    fits:  assume     none: preempt, or park by  |
//	    |                             |        shape until a change helps |
//	    +-----------------------------|---------------------|-------------+
//	                                  v                     v
//	        POST binding, many in flight      PATCH status: PodScheduled=False,
//	                                  |       nominatedNodeName; DELETE victims
//	                                  +---- result ---> inbox
//
// Cost: an attempt looks at a sample of the nodes, never at pods: what rules
// about other pods need is counted by topology (tally.go) and changes with each
// pod that comes or goes; and what a node said of a pod is remembered for pods
// like it until the node changes (equivalence.go). What changed is looked at once
// for each shape of waiting pods (shape.go, hints.go).
//
// Use: New, then Run; Gaps lists the pods that wait and why. It needs nothing
// but a client, so that it runs in the server's process or alone, and twice at
// once: of two bindings the API server refuses the second, and where two
// schedulers together gave a node more than it has, the node refuses. Devices
// are the exception, as upstream: a device is given away in the status of a
// claim, and nothing is written that two claims share, so that two schedulers at
// once may give one device to two claims. Those of a driver, or of a set of
// nodes, are for one scheduler (https://github.com/kubernetes/kubernetes/issues/128980).
//
// Concurrency: one goroutine owns the index and the queue, and each write runs
// in a goroutine of its own. Gaps may be called from anywhere.
//
// Failure: the inbox holds keys, and what a key names is read from the views
// when it is its turn, so that late, doubled or reordered events change
// nothing; all keys are looked at again now and then for those that were lost.
// A binding that failed gives its place back and is tried again after 1 s,
// doubled up to 10 s.
//
// Testing: the parts (queue, cluster, filters, placement) do no I/O and are
// tested by tables; the whole in a synctest bubble with an API server.
package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/scheduler/devices"
	"github.com/setpoint-project/setpoint/internal/scheduler/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

const (
	name = "scheduler"
	// All that the views show is looked at again this often, against events
	// that were lost. It writes nothing where nothing was.
	resync = time.Minute
)

// Options of a Scheduler.
type Options struct {
	Client client.Interface
	Logger *slog.Logger // nil: no log
	// Profiles are the schedulers that pods choose between; none means one of
	// the default.
	Profiles []Profile
	// Extenders are asked over HTTP before a pod is placed.
	Extenders []Extender
	// Bindings is how many bindings are written at the same time at most, so
	// that the store can commit many at once; 0 means 128.
	Bindings int
	// Seed of the choice between nodes that are equally good; 0 means random.
	Seed uint64
	// Recorder of events; nil: none. One that is client.Sourced records for each
	// profile in its name.
	Recorder client.Recorder
	// Observer, when not nil, is told each outcome. It must be quick.
	Observer func(loop string, key loop.Key, o loop.Outcome, err error)
}

// Scheduler is the placement loop, wired.
type Scheduler struct {
	opts           Options
	profiles       map[string]*profile // by the scheduler's name
	pods, nodes    client.View
	namespaces     client.View
	budgets        client.View
	services       client.View
	sets, stateful client.View // ReplicaSets, StatefulSets
	volumes        *volumes.Catalog
	devices        *devices.Catalog
	inbox          *inbox
	gaps           gaps

	// The goroutine of Run owns the rest.
	cluster   *cluster
	queue     *queue
	placement *placement
	bindings  int                // in flight
	offered   map[types.UID]bool // for whom extenders are asked who leaves
	pending   pendings
	statuses  *statusWriter
	dirty     map[string]bool // nodes that may have room for a waiting pod now
	moved     bool            // a node or a namespace that rules may look at
	events    []event         // since rules were last looked at
	asked     uint64          // the number of the attempt at the last look at all
}

// New makes a scheduler; Run turns it. It fails when a profile is wrong.
func New(opts Options) (*Scheduler, error) {
	if len(opts.Profiles) == 0 {
		opts.Profiles = []Profile{{}}
	}
	profiles := map[string]*profile{}
	for i := range opts.Profiles {
		p, err := newProfile(opts.Profiles[i])
		if err != nil {
			return nil, err
		}
		if profiles[p.SchedulerName] != nil {
			return nil, fmt.Errorf("scheduler: two profiles have the name %s", p.SchedulerName)
		}
		if p.recorder = opts.Recorder; p.recorder == nil {
			p.recorder = client.NoEvents
		} else if r, ok := opts.Recorder.(client.Sourced); ok {
			p.recorder = r.As(p.SchedulerName)
		}
		profiles[p.SchedulerName] = p
	}
	if opts.Bindings == 0 {
		opts.Bindings = 128
	}
	if opts.Seed == 0 {
		opts.Seed = rand.Uint64()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Scheduler{
		opts:       opts,
		profiles:   profiles,
		pods:       opts.Client.View(client.Pods, client.ViewOptions{}),
		nodes:      opts.Client.View(client.Nodes, client.ViewOptions{}),
		namespaces: opts.Client.View(client.Namespaces, client.ViewOptions{}),
		budgets:    opts.Client.View(client.PodDisruptionBudgets, client.ViewOptions{}),
		services:   opts.Client.View(client.Services, client.ViewOptions{}),
		sets:       opts.Client.View(client.ReplicaSets, client.ViewOptions{}),
		stateful:   opts.Client.View(client.StatefulSets, client.ViewOptions{}),
		volumes:    volumes.New(opts.Client),
		devices:    devices.New(opts.Client),
		pending:    newPendings(),
		inbox:      newInbox(),
		cluster:    newCluster(),
		queue:      newQueue(),
		dirty:      map[string]bool{},
		offered:    map[types.UID]bool{},
	}
	controllers.IndexBySelector(s.services, serviceSelector)
	s.cluster.groups.namespaceLabels = func(name string) labels.Set {
		if ns := s.namespaces.Get("", name); ns != nil {
			return ns.GetLabels()
		}
		return nil
	}
	s.cluster.started = func(p *podInfo) time.Time {
		if pod := client.In[*corev1.Pod](s.pods, p.key.Namespace, p.key.Name); pod != nil && pod.Status.StartTime != nil {
			return pod.Status.StartTime.Time
		}
		return time.Now()
	}
	s.placement = &placement{cluster: s.cluster, rand: rand.New(rand.NewPCG(opts.Seed, 0)), vetoed: map[string]string{}, volumes: s.volumes, devices: s.devices}
	s.statuses = newStatusWriter(opts.Client, s.inbox)
	return s, nil
}

// Name of the loop.
func (s *Scheduler) Name() string { return name }

// Gaps lists the pods that are not placed, and what each waits for.
func (s *Scheduler) Gaps() []loop.Gap { return s.gaps.list() }

// Run places pods until ctx ends and every write in flight has ended.
func (s *Scheduler) Run(ctx context.Context) error {
	others := append(s.volumes.Views(), s.devices.Views()...)
	for _, v := range append([]client.View{s.namespaces, s.nodes, s.pods, s.budgets, s.services, s.sets, s.stateful}, others...) {
		if err := v.WaitSynced(ctx); err != nil {
			return err
		}
	}
	defer s.nodes.Handle(s.nodeChanged)()
	defer s.pods.Handle(s.podChanged)()
	defer s.namespaces.Handle(s.namespaceChanged)()
	for _, v := range others {
		defer v.Handle(s.inbox.object)()
	}
	defer s.inbox.writes.Wait()

	// What is placed must be known before anything is: a look at all does not
	// trust events for it.
	s.lookAtAll(ctx)
	timer := time.NewTimer(resync)
	defer timer.Stop()
	next := time.Now().Add(resync)
	for {
		now := time.Now()
		if !now.Before(next) {
			s.lookAtAll(ctx)
			next = now.Add(resync)
		}
		s.take(ctx, now)
		s.queue.release(now)
		s.expire(now)
		more := s.placeSome(ctx, now)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if more || len(s.dirty) > 0 {
			continue
		}
		wake := next
		if due, ok := s.queue.nextDue(); ok && due.Before(wake) {
			wake = due
		}
		if due := s.pending.due; !due.IsZero() && due.Before(wake) {
			wake = due
		}
		timer.Reset(time.Until(wake))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.inbox.wake:
		case <-timer.C:
		}
	}
}

// placeSome places a few pods, and reports whether there are more that could
// be placed now. In between the inbox gets its turn.
func (s *Scheduler) placeSome(ctx context.Context, now time.Time) bool {
	for range 16 {
		if s.bindings >= s.opts.Bindings {
			return false // the result of a binding wakes us
		}
		p := s.queue.pop()
		if p == nil {
			return false
		}
		s.place(ctx, p, now)
	}
	return true
}

// place gives one pod a node, or puts it aside with the reason.
func (s *Scheduler) place(ctx context.Context, p *podInfo, now time.Time) {
	n := s.placement.choose(p)
	if n != nil && len(s.opts.Extenders) > 0 {
		s.consult(ctx, p)
		return
	}
	s.settle(ctx, p, n, now)
}

// settle binds a pod to the node that was chosen; nil: none fits.
func (s *Scheduler) settle(ctx context.Context, p *podInfo, n *nodeInfo, now time.Time) {
	if n == nil {
		s.settleWoken(p, "")
		s.refuse(ctx, p, now)
		return
	}
	s.settleWoken(p, n.name)
	s.cluster.assume(p, n)
	s.cluster.nominated.forget(p.key)
	s.note(p, false)
	p.choice, p.allocation = p.needs.Choose(n.node), p.devices.Choose(n.node)
	if p.choice != nil || p.allocation != nil {
		s.prepare(ctx, p, n.name)
		return
	}
	s.startBinding(ctx, p, n.name)
}

func (s *Scheduler) startBinding(ctx context.Context, p *podInfo, node string) {
	s.bindings++
	s.inbox.writes.Go(func() { s.inbox.bound(p, node, s.bind(ctx, p, node)) })
}

// settleWoken makes another waiting pod look at the room that woke p if p did
// not take it.
func (s *Scheduler) settleWoken(p *podInfo, took string) {
	if by := p.queued.wokenBy; by != "" && by != took {
		s.dirty[by] = true
	}
	p.queued.wokenBy = ""
}

// refuse says why a pod is not placed: as a condition, an event, and a gap;
// and makes room for it where that is due. What was said already is not
// written again.
func (s *Scheduler) refuse(ctx context.Context, p *podInfo, now time.Time) {
	d := s.placement.diagnose(p)
	message := d.String()
	var offers []*eviction
	if p.profile.without&withoutPreemption == 0 {
		list, why := s.placement.evictions(p, client.Listed[*policyv1.PodDisruptionBudget](s.budgets, ""))
		switch {
		case len(list) > 0 && s.haveSay(p):
			offers = list
		case len(list) > 0:
			s.makeRoom(ctx, p, bestOf(list))
		case why != "":
			message += " preemption: " + why
		}
	}
	s.takeBack(ctx, p)
	s.queue.park(p, refused{ruled: s.placement.domains.strict() || len(s.placement.vetoed) > 0 || p.needs != nil || p.devices != nil,
		blocked: d.All != "", on: p.waitsOn()}, now)
	on := strings.Join(d.Helps, ", or ")
	s.gaps.set(p.key, loop.Waiting, on, message)
	s.observe(p.key, loop.WaitFor(on, "%s", message), nil)
	if len(offers) > 0 {
		s.offer(ctx, p, offers, message)
		return
	}
	s.tell(ctx, p, message, now)
}

// tell says in a pod's status why it waits and where room is made for it, and,
// if that is news, in an event.
func (s *Scheduler) tell(ctx context.Context, p *podInfo, message string, now time.Time) {
	if s.statuses.unschedulable(ctx, p.pod, s.cluster.nominated.node[p.key], message, now) {
		p.profile.recorder.Event(p.pod, corev1.EventTypeWarning, "FailedScheduling", "%s", message)
	}
}

// Explain says why a pod that waits is on no node, node by node, and what
// could help it; for one that is placed or that is not known, nil. It may be
// called while Run runs.
func (s *Scheduler) Explain(ctx context.Context, namespace, name string) (*Diagnosis, error) {
	answer := make(chan *Diagnosis, 1)
	s.inbox.call(func() {
		p := s.queue.pods[types.NamespacedName{Namespace: namespace, Name: name}]
		if p == nil {
			answer <- nil
			return
		}
		s.placement.look(p)
		answer <- s.placement.diagnose(p)
	})
	select {
	case d := <-answer:
		return d, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *Scheduler) observe(key types.NamespacedName, o loop.Outcome, err error) {
	if s.opts.Observer != nil {
		s.opts.Observer(name, key, o, err)
	}
	if err != nil {
		s.opts.Logger.Info("looked", "loop", name, "key", key.String(), "error", err)
		return
	}
	if s.opts.Logger.Enabled(context.Background(), slog.LevelDebug) {
		s.opts.Logger.Debug("looked", "loop", name, "key", key.String(), "outcome", o.State.String(), "reason", o.Reason)
	}
}
