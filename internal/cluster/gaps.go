package cluster

import (
	"encoding/json"
	"net/http"
	"sort"
	"sync"
	"time"

	"github.com/setpoint-project/setpoint/loop"
)

// GapsPath is where the API server of a whole cluster tells the open gaps.
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
}

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

func (g *gapList) all() []Gap {
	g.mu.Lock()
	loops := g.loops
	g.mu.Unlock()
	gaps := []Gap{}
	for _, l := range loops {
		for _, gap := range l.Gaps() {
			gaps = append(gaps, Gap{gap.Loop, gap.Key.String(), gap.State.String(), gap.On, gap.Reason, gap.Since})
		}
	}
	sort.SliceStable(gaps, func(i, j int) bool { return gaps[i].Since.Before(gaps[j].Since) })
	return gaps
}

func (g *gapList) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(g.all())
}
