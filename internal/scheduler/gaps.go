package scheduler

import (
	"sort"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/loop"
)

// gaps are the pods that are not placed, with what each waits for.
type gaps struct {
	mu  sync.Mutex
	all map[types.NamespacedName]loop.Gap // guarded by mu
}

// set keeps the time of a gap whose reason has not changed. on is what its
// pod waits for; "": nothing that has a name.
func (g *gaps) set(key types.NamespacedName, state loop.State, on, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if had, ok := g.all[key]; ok && had.State == state && had.On == on && had.Reason == reason {
		return
	}
	if g.all == nil {
		g.all = map[types.NamespacedName]loop.Gap{}
	}
	g.all[key] = loop.Gap{Loop: name, Key: key, State: state, On: on, Reason: reason, Since: time.Now()}
}

func (g *gaps) delete(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, key)
}

func (g *gaps) list() []loop.Gap {
	g.mu.Lock()
	out := make([]loop.Gap, 0, len(g.all))
	for _, gap := range g.all {
		out = append(out, gap)
	}
	g.mu.Unlock()
	sort.Slice(out, func(i, j int) bool { return out[i].Since.Before(out[j].Since) })
	return out
}
