package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fences are maxSurge and maxUnavailable in pods, both rounded up, of the nodes
// that ought to have one. When both come to 0 one pod may be unavailable, or
// nothing would move.
func (w *world) fences(desired int) (surge, unavailable int) {
	surge = w.maxSurge(desired)
	if ru := w.set.Spec.UpdateStrategy.RollingUpdate; ru != nil && ru.MaxUnavailable != nil {
		unavailable = scaled(ru.MaxUnavailable, desired)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

func (w *world) maxSurge(desired int) int {
	ru := w.set.Spec.UpdateStrategy.RollingUpdate
	if w.set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || ru == nil || ru.MaxSurge == nil {
		return 0
	}
	return scaled(ru.MaxSurge, desired)
}

func scaled(v *intstr.IntOrString, of int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(v, of, true)
	if err != nil { // the API server has validated it
		return 0
	}
	return n
}

// roll replaces pods of old revisions, or puts new ones beside them, as many as
// the fences allow. A pod that is not available goes whatever they say: nobody
// is worse off.
func (w *world) roll(spots []*spot, s *step) {
	if w.set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return
	}
	desired := 0
	for _, at := range spots {
		if at.wanted {
			desired++
		}
	}
	surge, unavailable := w.fences(desired)
	if surge > 0 {
		w.rollBeside(spots, surge, s)
	} else {
		w.rollInPlace(spots, unavailable, s)
	}
}

func (w *world) rollInPlace(spots []*spot, budget int, s *step) {
	var candidates []*corev1.Pod
	for _, at := range spots {
		fresh, old, ok := w.versions(at)
		switch {
		case !at.wanted && len(at.pods) == 0:
		case !ok, (fresh == nil) == (old == nil):
			budget-- // on its way
		case fresh != nil:
			if !w.available(fresh) {
				budget--
			}
		case !w.available(old):
			s.remove = append(s.remove, old)
			budget--
		default:
			candidates = append(candidates, old)
		}
	}
	s.remove = append(s.remove, candidates[:max(0, min(budget, len(candidates)))]...)
}

func (w *world) rollBeside(spots []*spot, budget int, s *step) {
	var candidates []string
	for _, at := range spots {
		fresh, old, ok := w.versions(at)
		switch {
		case !at.wanted && len(at.pods) == 0:
		case !ok:
			budget--
		case old == nil: // nothing to replace
		case fresh == nil && !at.wanted: // nowhere to go
		case fresh == nil && !w.available(old):
			s.create = append(s.create, at.name)
		case fresh == nil:
			candidates = append(candidates, at.name)
		case !w.available(fresh):
			budget--
		default:
			s.remove = append(s.remove, old)
		}
	}
	s.create = append(s.create, candidates[:max(0, min(budget, len(candidates)))]...)
}

// versions are the pod of the revision in force and that of an old one; ok is
// false when there is more than one of either.
func (w *world) versions(at *spot) (fresh, old *corev1.Pod, ok bool) {
	for _, pod := range at.pods {
		slot := &old
		if w.isCurrent(pod) {
			slot = &fresh
		}
		if w.leaving(pod) {
			continue
		}
		if *slot != nil {
			return nil, nil, false
		}
		*slot = pod
	}
	return fresh, old, true
}
