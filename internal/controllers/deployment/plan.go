// Package deployment is the loop that rolls a Deployment out over its
// ReplicaSets. plan.go and the files beside it decide, without I/O, which one
// write is next; controller.go reads the views, makes that write and comes
// back.
//
//	settle pause -> record revision -> scale in proportion --+
//	                     |                                   |
//	                     v                                   v
//	            RollingUpdate or Recreate ---------> clean up -> status
//
// Every step is derived from what is there now, so a crash between any two
// writes, or two copies of the loop, converge to the same end.
//
// The behaviour is that of
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/ with
// its reasons and messages. Deviations are told where they are.
package deployment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// world is what the loop sees of one Deployment.
type world struct {
	d    *appsv1.Deployment   // shared: copied before it is changed
	sets []*appsv1.ReplicaSet // owned, in no order
	// pods tells whether a ReplicaSet has pods that have not ended. Recreate
	// asks: a ReplicaSet's status does not count pods on their way out.
	pods func(rs types.UID) bool
	now  time.Time
}

// step is the next write, at most one of create, update, remove and status.
type step struct {
	create *appsv1.ReplicaSet
	update *appsv1.ReplicaSet
	remove *appsv1.ReplicaSet
	// status is the Deployment with a new status, and its revision annotation,
	// which goes through the status so that the generation is not counted up.
	status *appsv1.Deployment

	event string // told when the write is done: "Scaled up replica set ..."
	what  string // the step, for the log

	// Without a write: what is waited for, and when to look again.
	on, wait string
	after    time.Duration
}

func (s step) writes() bool {
	return s.create != nil || s.update != nil || s.remove != nil || s.status != nil
}

// rollout is a world sorted out.
type rollout struct {
	world
	newRS *appsv1.ReplicaSet   // that of the present template; nil: not made yet
	old   []*appsv1.ReplicaSet // the others, oldest first
}

func (r *rollout) all() []*appsv1.ReplicaSet {
	if r.newRS == nil {
		return r.old
	}
	return append(slices.Clone(r.old), r.newRS)
}

func sortOut(w world) *rollout {
	r := &rollout{world: w}
	sets := slices.SortedFunc(slices.Values(w.sets), byAge)
	for _, rs := range sets {
		// The oldest of equals is the one to use: that is stable whatever
		// order the objects were seen in.
		if r.newRS == nil && sameTemplate(&rs.Spec.Template, &w.d.Spec.Template) {
			r.newRS = rs
			continue
		}
		r.old = append(r.old, rs)
	}
	return r
}

func byAge(a, b *appsv1.ReplicaSet) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// plan decides what is next.
func plan(w world) step {
	r := sortOut(w)
	if w.d.DeletionTimestamp != nil {
		return r.countOnly()
	}
	if s := r.settlePause(); s.writes() {
		return s
	}
	if s := r.syncRevision(); s.writes() {
		return s
	}
	if w.d.Spec.Paused || r.isScaling() {
		if s := r.scale(); s.writes() {
			return s
		}
	}
	if w.d.Spec.Paused {
		if s := r.cleanUp(); s.writes() {
			return s
		}
		return r.countOnly()
	}
	var s step
	if w.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		s = r.recreate()
	} else {
		s = r.roll()
	}
	if s.writes() {
		return s
	}
	if complete(w.d, &w.d.Status) {
		if s := r.cleanUp(); s.writes() {
			return s
		}
	}
	return r.report(s)
}

// roll is one step of a rolling update: up with the new as far as maxSurge
// lets, then down with the old as far as maxUnavailable lets, those that do
// not work first.
func (r *rollout) roll() step {
	if r.newRS == nil {
		return r.make()
	}
	if s := r.scaleNew(); s.writes() {
		return s
	}
	return r.scaleOld()
}

// recreate is one step of a Recreate: all the old away, then the new.
func (r *rollout) recreate() step {
	for _, rs := range r.old {
		if *rs.Spec.Replicas > 0 {
			return r.resize(rs, 0)
		}
	}
	for _, rs := range r.old {
		if rs.Status.Replicas > 0 || r.pods(rs.UID) {
			return step{on: "ReplicaSet " + rs.Namespace + "/" + rs.Name, wait: "its pods have to end before new ones are made"}
		}
	}
	if r.newRS == nil {
		return r.make()
	}
	return r.scaleNew()
}

// make is the creation of the ReplicaSet of the present template.
func (r *rollout) make() step {
	rs := r.newReplicaSet()
	s := step{create: rs, what: "made ReplicaSet " + rs.Name}
	if *rs.Spec.Replicas > 0 {
		s.event = fmt.Sprintf("Scaled up replica set %s from 0 to %d", rs.Name, *rs.Spec.Replicas)
	}
	return s
}

// cleanUp takes away the oldest of the old ReplicaSets that exceed
// revisionHistoryLimit and are empty.
func (r *rollout) cleanUp() step {
	limit := r.d.Spec.RevisionHistoryLimit
	if limit == nil {
		return step{}
	}
	alive := slices.DeleteFunc(slices.Clone(r.old), func(rs *appsv1.ReplicaSet) bool { return rs.DeletionTimestamp != nil })
	excess := len(alive) - int(*limit)
	slices.SortStableFunc(alive, func(a, b *appsv1.ReplicaSet) int { return int(revision(a)) - int(revision(b)) })
	for i := 0; i < excess; i++ {
		rs := alive[i]
		if rs.Status.Replicas != 0 || *rs.Spec.Replicas != 0 || rs.Generation > rs.Status.ObservedGeneration {
			continue
		}
		return step{remove: rs, what: "removed old ReplicaSet " + rs.Name}
	}
	return step{}
}

// templateHash is the pod template hash that labels what a template made.
const templateHash = appsv1.DefaultDeploymentUniqueLabelKey

// sameTemplate compares templates but for the hash label.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	return equalWithout(a, b, templateHash)
}
