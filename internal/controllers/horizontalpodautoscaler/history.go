package horizontalpodautoscaler

import (
	"slices"
	"time"
)

// longestMemory is the longest window and period that a behavior may name.
const longestMemory = time.Hour

// history is what was asked for and done lately, of one autoscaler.
type history struct {
	asked []recommendation // before it was held back
	ups   []change
	downs []change
	begun bool
}

type recommendation struct {
	at       time.Time
	replicas int32
}

type change struct {
	at time.Time
	by int32 // always positive
}

// begin takes what is there for the first recommendation.
func (h *history) begin(replicas int32, now time.Time) {
	if !h.begun {
		h.begun, h.asked = true, []recommendation{{now, replicas}}
	}
}

// ask notes a recommendation and forgets those that are too old.
func (h *history) ask(replicas int32, now time.Time) {
	h.asked = slices.DeleteFunc(h.asked, func(r recommendation) bool { return now.Sub(r.at) > longestMemory })
	h.asked = append(h.asked, recommendation{now, replicas})
}

// scaled notes that the number of replicas was changed.
func (h *history) scaled(from, to int32, now time.Time) {
	note := func(list []change, by int32) []change {
		list = slices.DeleteFunc(list, func(c change) bool { return now.Sub(c.at) > longestMemory })
		return append(list, change{now, by})
	}
	if to > from {
		h.ups = note(h.ups, to-from)
	} else {
		h.downs = note(h.downs, from-to)
	}
}

// within sums up the changes of a period.
func within(list []change, period time.Duration, now time.Time) (sum int32) {
	for _, c := range list {
		if c.at.After(now.Add(-period)) {
			sum += c.by
		}
	}
	return sum
}
