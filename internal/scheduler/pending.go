package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/scheduler/devices"
	"github.com/setpoint-project/setpoint/internal/scheduler/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// A pod that was given a node, but whose devices are still to be allocated, or
// whose volumes are still to be made or bound there, keeps its place and waits.
// Others are placed meanwhile.
//
//	settle -- prepare: write the choices -+-> pend --claims changed--> bound all? bind
//	             |failed                  |     | failed, or too late       ^
//	             +------------> unplace <-|-----+                           |
//	                                      +-- devices alone ----------------+

// bindTimeout is how long volumes may take, unless the profile says otherwise.
// https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#kubescheduler-config-k8s-io-v1-VolumeBindingArgs
const bindTimeout = 10 * time.Minute

// pending is a pod that waits for its volumes.
type pending struct {
	pod   *podInfo
	node  string
	until time.Time
}

// pendings are found by pod, and by what they wait for.
type pendings struct {
	pods map[types.NamespacedName]*pending
	on   map[types.NamespacedName]map[types.NamespacedName]bool // pods, by claim
	due  time.Time                                              // when the first may be too late; zero: never
}

func newPendings() pendings {
	return pendings{pods: map[types.NamespacedName]*pending{}, on: map[types.NamespacedName]map[types.NamespacedName]bool{}}
}

func (ps *pendings) add(w *pending) {
	ps.pods[w.pod.key] = w
	for _, claim := range w.pod.choice.Claims() {
		if ps.on[claim] == nil {
			ps.on[claim] = map[types.NamespacedName]bool{}
		}
		ps.on[claim][w.pod.key] = true
	}
	if ps.due.IsZero() || w.until.Before(ps.due) {
		ps.due = w.until
	}
}

// remove takes out what waits for p; a pod of that name since stays.
func (ps *pendings) remove(p *podInfo) {
	w := ps.pods[p.key]
	if w == nil || w.pod != p {
		return
	}
	delete(ps.pods, p.key)
	for _, claim := range p.choice.Claims() {
		if delete(ps.on[claim], p.key); len(ps.on[claim]) == 0 {
			delete(ps.on, claim)
		}
	}
}

// prepare writes which volumes and devices p is to have, and waits for them.
func (s *Scheduler) prepare(ctx context.Context, p *podInfo, node string) {
	choice, allocation := p.choice, p.allocation
	if choice != nil {
		s.volumes.Hold(choice)
	}
	if allocation != nil {
		s.devices.Hold(allocation)
	}
	s.bindings++
	s.inbox.writes.Go(func() {
		var err error
		if choice != nil {
			err = s.volumes.Write(ctx, s.opts.Client, choice)
		}
		if err == nil && allocation != nil {
			err = s.devices.Write(ctx, s.opts.Client, allocation)
		}
		s.inbox.call(func() {
			s.bindings--
			s.prepared(ctx, p, node, err)
		})
	})
}

func (s *Scheduler) prepared(ctx context.Context, p *podInfo, node string, err error) {
	if at, held := s.cluster.pods[p.key]; !held || at.info != p {
		return // it is gone, or somebody else's
	}
	if err != nil {
		s.unplace(p, err, time.Now())
		return
	}
	if p.choice == nil {
		s.letGo(p)
		s.startBinding(ctx, p, node)
		return
	}
	timeout := p.profile.BindTimeout
	if timeout == 0 {
		timeout = bindTimeout
	}
	w := &pending{pod: p, node: node, until: time.Now().Add(timeout)}
	s.pending.add(w)
	s.lookAtPending(ctx, w)
}

// lookAtPending binds a pod whose volumes are there, and gives its place back
// when they cannot come.
func (s *Scheduler) lookAtPending(ctx context.Context, w *pending) {
	n := s.cluster.nodes[w.node]
	if n == nil || n.node == nil {
		s.giveUp(w, fmt.Errorf("node %s is gone", w.node))
		return
	}
	switch done, failed, why := s.volumes.Settled(w.pod.choice, n.node); {
	case done:
		s.letGo(w.pod)
		s.startBinding(ctx, w.pod, w.node)
	case failed:
		s.giveUp(w, fmt.Errorf("%s", why))
	default:
		s.gaps.set(w.pod.key, loop.Waiting, volumes.OnClaim(w.pod.choice.Claims()[0]), "it is to be on node "+w.node+" when its volumes are there: "+why)
	}
}

func (s *Scheduler) giveUp(w *pending, err error) {
	err = fmt.Errorf("binding volumes: %w", err)
	if s.unplace(w.pod, err, time.Now()) {
		w.pod.profile.recorder.Event(w.pod.pod, corev1.EventTypeWarning, "FailedScheduling", "%s", err)
	}
}

// letGo ends what is held for p besides its place.
func (s *Scheduler) letGo(p *podInfo) {
	if p.choice != nil {
		s.pending.remove(p)
		s.volumes.Release(p.choice)
	}
	if p.allocation != nil {
		s.devices.Release(p.allocation)
	}
	p.choice, p.allocation = nil, nil
}

// takeBack takes the devices from a claim that has them where p cannot be, so
// that it may get others.
func (s *Scheduler) takeBack(ctx context.Context, p *podInfo) {
	if p.devices == nil || p.devices.Stuck == nil {
		return
	}
	claim := p.devices.Stuck
	s.inbox.writes.Go(func() {
		if err := devices.TakeBack(ctx, s.opts.Client, claim); err != nil && ctx.Err() == nil {
			s.opts.Logger.Info("a claim keeps devices that its pod cannot use", "claim", claim.Namespace+"/"+claim.Name, "error", err)
			s.inbox.call(func() { s.again(p.key) })
		}
	})
}

// expire gives up on those that have waited too long.
func (s *Scheduler) expire(now time.Time) {
	if s.pending.due.IsZero() || now.Before(s.pending.due) {
		return
	}
	s.pending.due = time.Time{}
	for _, w := range s.pending.pods {
		if !now.Before(w.until) {
			s.giveUp(w, fmt.Errorf("timed out waiting for the condition"))
		} else if s.pending.due.IsZero() || w.until.Before(s.pending.due) {
			s.pending.due = w.until
		}
	}
}

// nodeGone gives up on those that were to be on a node.
func (s *Scheduler) nodeGone(node string) {
	for _, w := range s.pending.pods {
		if w.node == node {
			s.giveUp(w, fmt.Errorf("node %s is gone", node))
		}
	}
}

// observeObject looks at the pods that wait for an object that changed.
func (s *Scheduler) observeObject(ctx context.Context, c change) {
	helps, claims := s.volumes.Changed(c.old, c.new)
	helps = append(helps, s.devices.Changed(c.old, c.new)...)
	for _, claim := range claims {
		for key := range s.pending.on[claim] {
			s.lookAtPending(ctx, s.pending.pods[key])
		}
	}
	for _, what := range helps {
		s.queue.helped(what)
	}
}

// lookAtPendings does not trust events.
func (s *Scheduler) lookAtPendings(ctx context.Context) {
	for _, w := range s.pending.pods {
		s.lookAtPending(ctx, w)
	}
}
