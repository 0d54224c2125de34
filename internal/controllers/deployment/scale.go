package deployment

import (
	"fmt"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fences are maxSurge and maxUnavailable in pods. Percentages of surge are
// rounded up, of unavailability down; when both come to 0 a rollout could not
// move, so one pod may be unavailable.
func fences(d *appsv1.Deployment) (surge, unavailable int32) {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0, 0
	}
	var ru appsv1.RollingUpdateDeployment
	if d.Spec.Strategy.RollingUpdate != nil {
		ru = *d.Spec.Strategy.RollingUpdate
	}
	scaled := func(v *intstr.IntOrString, up bool) int32 {
		if v == nil {
			return 0
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(v, int(*d.Spec.Replicas), up)
		if err != nil { // the API server has validated it
			return 0
		}
		return int32(n)
	}
	surge, unavailable = scaled(ru.MaxSurge, true), scaled(ru.MaxUnavailable, false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

func maxSurge(d *appsv1.Deployment) int32 {
	surge, _ := fences(d)
	return surge
}

func maxUnavailable(d *appsv1.Deployment) int32 {
	_, unavailable := fences(d)
	return min(unavailable, *d.Spec.Replicas)
}

// newSize is how large the new ReplicaSet may be now, given its present size.
func (r *rollout) newSize(present int32) int32 {
	want := *r.d.Spec.Replicas
	if r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return want
	}
	room := want + maxSurge(r.d) - claimed(r.all())
	if room <= 0 {
		return present
	}
	return present + min(room, want-present)
}

func (r *rollout) scaleNew() step {
	now, want := *r.newRS.Spec.Replicas, *r.d.Spec.Replicas
	if now > want {
		return r.resize(r.newRS, want)
	}
	return r.resize(r.newRS, r.newSize(now))
}

// scaleOld takes one old ReplicaSet down by as much as the Deployment can
// spare.
func (r *rollout) scaleOld() step {
	least := *r.d.Spec.Replicas - maxUnavailable(r.d)
	newMissing := *r.newRS.Spec.Replicas - r.newRS.Status.AvailableReplicas
	spare := claimed(r.all()) - least - newMissing
	if claimed(r.old) == 0 || spare <= 0 {
		return step{}
	}
	// What does not work serves nobody: it goes first.
	for _, rs := range r.old {
		if broken := *rs.Spec.Replicas - rs.Status.AvailableReplicas; broken > 0 {
			return r.resize(rs, *rs.Spec.Replicas-min(spare, broken))
		}
	}
	// A ReplicaSet that is being scaled down still counts as available what is
	// about to go. This loop comes back after each write, so it must not take
	// that for spare.
	var available int32
	for _, rs := range r.all() {
		available += min(rs.Status.AvailableReplicas, *rs.Spec.Replicas)
	}
	spare = min(spare, available-least)
	for _, rs := range r.old {
		if *rs.Spec.Replicas > 0 && spare > 0 {
			return r.resize(rs, *rs.Spec.Replicas-min(spare, *rs.Spec.Replicas))
		}
	}
	return step{}
}

// isScaling tells whether spec.replicas changed since a ReplicaSet in use was
// last sized for it.
func (r *rollout) isScaling() bool {
	for _, rs := range r.all() {
		if *rs.Spec.Replicas == 0 {
			continue
		}
		if n, ok := number(rs, desiredAnnotation); ok && n != *r.d.Spec.Replicas {
			return true
		}
	}
	return false
}

// scale follows a change of spec.replicas without rolling on: the one
// ReplicaSet in use as a whole, several in proportion to their size.
func (r *rollout) scale() step {
	if one := r.onlyActive(); one != nil {
		return r.resizeFor(one, *r.d.Spec.Replicas)
	}
	if r.saturated() {
		for _, rs := range r.old {
			if *rs.Spec.Replicas > 0 {
				return r.resize(rs, 0)
			}
		}
		return step{}
	}
	if r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return step{}
	}
	return r.scaleInProportion()
}

// onlyActive is the ReplicaSet in use when there is one only, else, when none
// is in use, the newest; nil when several are.
func (r *rollout) onlyActive() *appsv1.ReplicaSet {
	active := inUse(r.all())
	switch {
	case len(active) == 1:
		return active[0]
	case len(active) > 1:
		return nil
	case r.newRS != nil:
		return r.newRS
	case len(r.old) > 0:
		return r.old[len(r.old)-1]
	}
	return nil
}

// saturated: the new ReplicaSet alone does what the Deployment claims.
func (r *rollout) saturated() bool {
	if r.newRS == nil {
		return false
	}
	want := *r.d.Spec.Replicas
	desired, ok := number(r.newRS, desiredAnnotation)
	return ok && desired == want && *r.newRS.Spec.Replicas == want && r.newRS.Status.AvailableReplicas == want
}

// scaleInProportion spreads what is to be added or taken over the ReplicaSets
// in use by their size; the largest takes what rounding leaves. A ReplicaSet
// that was sized for the present claim has no share any more, so steps taken
// one by one add up to the same as all at once.
//
// See "Proportional scaling" in the documentation of Deployments.
func (r *rollout) scaleInProportion() step {
	active := inUse(r.all())
	var allowed int32
	if *r.d.Spec.Replicas > 0 {
		allowed = *r.d.Spec.Replicas + maxSurge(r.d)
	}
	add := allowed - claimed(active)
	slices.SortStableFunc(active, func(a, b *appsv1.ReplicaSet) int {
		if c := *b.Spec.Replicas - *a.Spec.Replicas; c != 0 {
			return int(c)
		}
		if add > 0 { // of equals, the newer grows
			return byAge(b, a)
		}
		return byAge(a, b)
	})
	sizes := make([]int32, len(active))
	var added int32
	for i, rs := range active {
		share := r.share(rs, add, added)
		sizes[i] = *rs.Spec.Replicas + share
		added += share
	}
	for i, rs := range active {
		if i == 0 && add != 0 {
			sizes[0] = max(0, sizes[0]+add-added)
		}
		if s := r.resizeFor(rs, sizes[i]); s.writes() {
			return s
		}
	}
	return step{}
}

// share is what rs gets of add, when others already got added of it.
func (r *rollout) share(rs *appsv1.ReplicaSet, add, added int32) int32 {
	size := *rs.Spec.Replicas
	if size == 0 || add == 0 || added == add {
		return 0
	}
	var fraction int32
	if *r.d.Spec.Replicas == 0 {
		fraction = -size
	} else {
		before, ok := number(rs, maxAnnotation)
		if !ok || before == 0 {
			before = r.d.Status.Replicas
		}
		if before == 0 {
			return 0
		}
		after := *r.d.Spec.Replicas + maxSurge(r.d)
		fraction = int32(math.Round(float64(size)*float64(after)/float64(before))) - size
	}
	if add > 0 {
		return min(fraction, add-added)
	}
	return max(fraction, add-added)
}

// resize gives rs another size; nothing when it has it.
func (r *rollout) resize(rs *appsv1.ReplicaSet, size int32) step {
	if *rs.Spec.Replicas == size {
		return step{}
	}
	return r.resizeFor(rs, size)
}

// resizeFor is resize, and records the claim that the size was made for.
func (r *rollout) resizeFor(rs *appsv1.ReplicaSet, size int32) step {
	sized := rs.DeepCopy()
	recorded := recordClaim(sized, r.d)
	was := *rs.Spec.Replicas
	if was == size && !recorded {
		return step{}
	}
	sized.Spec.Replicas = &size
	s := step{update: sized, what: "sized ReplicaSet " + rs.Name}
	if was != size {
		direction := "up"
		if size < was {
			direction = "down"
		}
		s.event = fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, rs.Name, was, size)
		s.what = strings.ToLower(s.event[:1]) + s.event[1:]
	}
	return s
}

func claimed(sets []*appsv1.ReplicaSet) (n int32) {
	for _, rs := range sets {
		n += *rs.Spec.Replicas
	}
	return n
}

func inUse(sets []*appsv1.ReplicaSet) (active []*appsv1.ReplicaSet) {
	for _, rs := range sets {
		if *rs.Spec.Replicas > 0 {
			active = append(active, rs)
		}
	}
	return active
}
