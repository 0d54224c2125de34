package horizontalpodautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// downWindow is how long a recommendation holds back smaller ones, where the
// spec does not say.
const downWindow = 5 * time.Minute

// Without a behavior, at most the double is added in one step, and four may
// always be there.
const (
	upFactor = 2
	upLeast  = 4
)

// normalize holds a recommendation back: by those of the time before, by the
// policies of the behavior, by the bounds of the spec.
func (w *world) normalize(s *step, current, asked, least int32) int32 {
	stable, reason, message := w.stabilize(current, asked)
	if stable != asked {
		w.set(s, autoscalingv2.AbleToScale, true, reason, message)
	} else {
		w.set(s, autoscalingv2.AbleToScale, true, "ReadyForNewScale", "recommended size matches current size")
	}
	desired, reason, message := w.limit(current, stable, least)
	w.set(s, autoscalingv2.ScalingLimited, desired != stable, reason, message)
	return desired
}

// stabilize takes the least of what was asked for in the window of scaling up,
// and the most of the window of scaling down.
func (w *world) stabilize(current, asked int32) (stable int32, reason, message string) {
	up, down := time.Duration(0), downWindow
	if b := w.hpa.Spec.Behavior; b != nil {
		up, down = window(b.ScaleUp, 0), window(b.ScaleDown, downWindow)
	}
	most, fewest := asked, asked
	for _, r := range w.history.asked {
		if r.at.After(w.now.Add(-up)) {
			fewest = min(fewest, r.replicas)
		}
		if r.at.After(w.now.Add(-down)) {
			most = max(most, r.replicas)
		}
	}
	w.history.ask(asked, w.now)
	stable = min(max(current, fewest), most)
	if asked >= current {
		return stable, "ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation"
	}
	return stable, "ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation"
}

func window(r *autoscalingv2.HPAScalingRules, otherwise time.Duration) time.Duration {
	if r == nil || r.StabilizationWindowSeconds == nil {
		return otherwise
	}
	return time.Duration(*r.StabilizationWindowSeconds) * time.Second
}

// limit keeps a number between the bounds and the rates.
func (w *world) limit(current, want, least int32) (desired int32, reason, message string) {
	most := w.hpa.Spec.MaxReplicas
	up, down := max(upFactor*current, upLeast), int32(0)
	if b := w.hpa.Spec.Behavior; b != nil {
		up, down = max(current, w.upTo(current, b.ScaleUp)), min(current, w.downTo(current, b.ScaleDown))
		if want <= current {
			up = most // only where it goes is limited
		}
		if want >= current {
			down = 0
		}
	}
	switch {
	case want > min(up, most) && up < most:
		return up, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"
	case want > most:
		return most, "TooManyReplicas", "the desired replica count is more than the maximum replica count"
	case want < max(down, least) && down > least:
		return down, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"
	case want < least:
		return least, "TooFewReplicas", "the desired replica count is less than the minimum replica count"
	}
	return want, "DesiredWithinRange", "the desired count is within the acceptable range"
}

// upTo is how many replicas the policies allow at the most. How many there were
// at the start of a period follows from what was done since.
func (w *world) upTo(current int32, r *autoscalingv2.HPAScalingRules) int32 {
	return w.allowed(current, r, func(start, value int32, percent bool) int32 {
		if percent {
			return clamp(math.Ceil(float64(start) * (1 + float64(value)/100)))
		}
		return clamp(float64(start) + float64(value))
	}, func(a, b int32) int32 { return max(a, b) }, func(a, b int32) int32 { return min(a, b) })
}

// downTo is how few they allow at the least.
func (w *world) downTo(current int32, r *autoscalingv2.HPAScalingRules) int32 {
	return w.allowed(current, r, func(start, value int32, percent bool) int32 {
		if percent {
			return clamp(math.Floor(float64(start) * (1 - float64(value)/100)))
		}
		return start - value
	}, func(a, b int32) int32 { return min(a, b) }, func(a, b int32) int32 { return max(a, b) })
}

// allowed goes through the policies: further is the one of two that changes
// more, nearer the other.
func (w *world) allowed(current int32, r *autoscalingv2.HPAScalingRules, by func(start, value int32, percent bool) int32, further, nearer func(a, b int32) int32) int32 {
	if r == nil || r.SelectPolicy != nil && *r.SelectPolicy == autoscalingv2.DisabledPolicySelect || len(r.Policies) == 0 {
		return current
	}
	pick := further
	if r.SelectPolicy != nil && *r.SelectPolicy == autoscalingv2.MinChangePolicySelect {
		pick = nearer
	}
	var out int32
	for i, p := range r.Policies {
		period := time.Duration(p.PeriodSeconds) * time.Second
		start := current - within(w.history.ups, period, w.now) + within(w.history.downs, period, w.now)
		n := by(start, p.Value, p.Type == autoscalingv2.PercentScalingPolicy)
		if i == 0 {
			out = n
		} else {
			out = pick(out, n)
		}
	}
	return out
}

func clamp(f float64) int32 { return int32(max(0, min(f, math.MaxInt32))) }
