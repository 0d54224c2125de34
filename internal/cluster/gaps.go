package cluster

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-project/setpoint/loop"
)

// GapsPath is where the API server tells the open gaps of the whole cluster;
// below it the parts that run alone report theirs.
const GapsPath = "/setpoint/v1/gaps"

// RangesPath is where the API server tells the address ranges to parts
// elsewhere.
const RangesPath = "/setpoint/v1/ranges"

// jsonHandler serves one value that never changes.
func jsonHandler(v any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	})
}

// Gap is one open gap, as `setpoint status` shows it.
type Gap struct {
	Loop   string    `json:"loop"`
	Key    string    `json:"key"`
	State  string    `json:"state"`
	On     string    `json:"on,omitempty"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	// Part is the process that the loop turns in, when it is not the API
	// server's own: "scheduler/host-1234".
	Part string `json:"part,omitempty"`
}

// Silent is the State of the gap that is a part of which nothing is heard. Its
// Loop is the part, its Key tells which copy.
const Silent = "silent"

// gapper is what has gaps: every loop.
type gapper interface{ Gaps() []loop.Gap }

// gapList gathers the gaps of the loops of this process.
type gapList struct {
	mu    sync.Mutex
	loops []gapper // guarded by mu
}

func (g *gapList) add(l gapper) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loops = append(g.loops, l)
}

// all lists the gaps, oldest first.
func (g *gapList) all() []Gap {
	g.mu.Lock()
	loops := g.loops
	g.mu.Unlock()
	gaps := []Gap{}
	for _, l := range loops {
		for _, gap := range l.Gaps() {
			gaps = append(gaps, Gap{Loop: gap.Loop, Key: gap.Key.String(), State: gap.State.String(), On: gap.On, Reason: gap.Reason, Since: gap.Since})
		}
	}
	sortGaps(gaps)
	return gaps
}

// sortGaps puts the oldest first, and those of one moment in an order that
// stays.
func sortGaps(gaps []Gap) {
	slices.SortFunc(gaps, func(a, b Gap) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Loop, b.Loop), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Part, b.Part))
	})
}

// merge makes one gap of those that several copies of a loop tell alike: the
// one that was told first.
func merge(lists ...[]Gap) []Gap {
	all := slices.Concat(lists...)
	sortGaps(all)
	seen := make(map[Gap]bool, len(all))
	merged := []Gap{}
	for _, g := range all {
		what := g
		what.Since, what.Part = time.Time{}, ""
		if !seen[what] {
			seen[what] = true
			merged = append(merged, g)
		}
	}
	return merged
}
