// Package scheduler is the placement loop: it gives each pod that has no node
// yet one that it fits on, by writing a binding. The kubelet notices.
//
//	views of pods and nodes --key--> inbox --+
//	                                         v
//	    +------------------------ one goroutine owns all -----------------+
//	    | observe -> cluster (sums per node)     queue (pods to place)    |
//	    |                  |                          | pop               |
//	    |                  +------> placement <-------+                   |
//	    |                    fits:  assume     none: park until a node    |
//	    |                             |              changes so that it   |
//	    |                             |              fits                 |
//	    +-----------------------------|---------------------|-------------+
//	                                  v                     v
//	        POST binding, many in flight      PATCH status: PodScheduled=False
//	                                  +---- result ---> inbox
//
// Use: New, then Run; Gaps lists the pods that wait and why. It needs nothing
// but a client, so that it runs in the server's process or alone, and twice at
// once: of two bindings the API server refuses the second, and where two
// schedulers together gave a node more than it has, the node refuses.
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
	"log/slog"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
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
	// SchedulerName is the spec.schedulerName of the pods to place; "" means
	// "default-scheduler".
	SchedulerName string
	// Bindings is how many bindings are written at the same time at most, so
	// that the store can commit many at once; 0 means 128.
	Bindings int
	// Seed of the choice between nodes that are equally good; 0 means random.
	Seed     uint64
	Recorder client.Recorder // nil: no events
	// Observer, when not nil, is told each outcome. It must be quick.
	Observer func(loop string, key loop.Key, o loop.Outcome, err error)
}

// Scheduler is the placement loop, wired.
type Scheduler struct {
	opts        Options
	pods, nodes client.View
	namespaces  client.View
	inbox       *inbox
	gaps        gaps

	// The goroutine of Run owns the rest.
	cluster   *cluster
	queue     *queue
	placement *placement
	bindings  int // in flight
	statuses  *statusWriter
	dirty     map[string]bool // nodes that may have room for a waiting pod now
	changed   bool            // something that rules about other pods look at
}

// New makes a scheduler; Run turns it.
func New(opts Options) *Scheduler {
	if opts.SchedulerName == "" {
		opts.SchedulerName = corev1.DefaultSchedulerName
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
	if opts.Recorder == nil {
		opts.Recorder = client.NoEvents
	}
	s := &Scheduler{
		opts:       opts,
		pods:       opts.Client.View(client.Pods, client.ViewOptions{}),
		nodes:      opts.Client.View(client.Nodes, client.ViewOptions{}),
		namespaces: opts.Client.View(client.Namespaces, client.ViewOptions{}),
		inbox:      newInbox(),
		cluster:    newCluster(),
		queue:      newQueue(),
		dirty:      map[string]bool{},
	}
	s.cluster.namespaceLabels = func(name string) labels.Set {
		if ns := s.namespaces.Get("", name); ns != nil {
			return ns.GetLabels()
		}
		return nil
	}
	s.placement = &placement{cluster: s.cluster, rand: rand.New(rand.NewPCG(opts.Seed, 0))}
	s.statuses = newStatusWriter(opts.Client, s.inbox)
	return s
}

// Name of the loop.
func (s *Scheduler) Name() string { return name }

// Gaps lists the pods that are not placed, and what each waits for.
func (s *Scheduler) Gaps() []loop.Gap { return s.gaps.list() }

// Run places pods until ctx ends and every write in flight has ended.
func (s *Scheduler) Run(ctx context.Context) error {
	for _, v := range []client.View{s.namespaces, s.nodes, s.pods} {
		if err := v.WaitSynced(ctx); err != nil {
			return err
		}
	}
	defer s.nodes.Handle(s.nodeChanged)()
	defer s.pods.Handle(s.podChanged)()
	defer s.inbox.writes.Wait()

	// What is placed must be known before anything is: a look at all does not
	// trust events for it.
	s.lookAtAll()
	timer := time.NewTimer(resync)
	defer timer.Stop()
	next := time.Now().Add(resync)
	for {
		now := time.Now()
		if !now.Before(next) {
			s.lookAtAll()
			next = now.Add(resync)
		}
		s.take(ctx, now)
		s.queue.release(now)
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
	if n == nil {
		s.settleWoken(p, "")
		s.refuse(ctx, p, s.placement.diagnose(p), now)
		return
	}
	s.settleWoken(p, n.name)
	s.cluster.assume(p, n)
	s.changed = true
	s.bindings++
	s.inbox.writes.Go(func() { s.inbox.bound(p, n.name, s.bind(ctx, p.pod, n.name)) })
}

// settleWoken makes another waiting pod look at the room that woke p if p did
// not take it.
func (s *Scheduler) settleWoken(p *podInfo, took string) {
	if by := p.queued.wokenBy; by != "" && by != took {
		s.dirty[by] = true
	}
	p.queued.wokenBy = ""
}

// refuse says why a pod is not placed: as a condition, an event, and a gap.
// What was said already is not written again.
func (s *Scheduler) refuse(ctx context.Context, p *podInfo, message string, now time.Time) {
	s.queue.park(p, s.placement.domains.strict(), now)
	s.gaps.set(p.key, loop.Waiting, message)
	s.observe(p.key, loop.WaitFor("", "%s", message), nil)
	if s.statuses.unschedulable(ctx, p.pod, message, now) {
		s.opts.Recorder.Event(p.pod, corev1.EventTypeWarning, "FailedScheduling", "%s", message)
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
	s.opts.Logger.Debug("looked", "loop", name, "key", key.String(), "outcome", o.State.String(), "reason", o.Reason)
}
