// Package controllertest shows that a loop converges: to the same end from any
// start, whatever happens to its events, its writes and itself.
//
//	func TestConverges(t *testing.T) {
//		controllertest.Run(t, controllertest.Case{
//			Loops: func(o controllers.Options) []controllers.Controller {
//				return []controllers.Controller{replicaset.New(o)}
//			},
//			Others: controllertest.Kubelets,
//			Start:  func(w *controllertest.World) { w.Create(client.ReplicaSets, ...) },
//			End:    func(w *controllertest.World) string { return w.Count(client.Pods) },
//		})
//	}
//
// Each seed is played twice, each time in a testing/synctest bubble with an
// API server in memory: once when all goes well, once with faults:
//
//   - events lost until the next relist, made twice, late, and out of order;
//   - views that lag behind;
//   - writes refused, told to conflict, or done with the answer lost;
//   - writes, and their answers, on their way while others write;
//   - crashes: the first before or after the k-th write, where k runs through
//     all writes of the good play as seeds go on, then others at random; the
//     loops are then made anew and know nothing;
//   - in every fourth seed, two copies of the loops at once, each with faults of
//     its own (-copies 2: in all).
//
// Then the faults end, the world settles, and the end must be the same text in
// both plays. After that, a quarter of an hour must pass without a
// single write.
//
// A failure names its seed; go test -run TestConverges -seed N plays it again,
// -runs N plays more. `make nightly` plays ten thousand seeds of every loop, by
// SETPOINT_SEEDS, SETPOINT_FIRST_SEED and SETPOINT_PROCESSES; SETPOINT_COPIES=2
// gives every seed two copies of the loops.
package controllertest

import (
	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// Case is what is tested.
type Case struct {
	// Server is what the API server is made of. Both plays have one each.
	Server apitest.Options
	// Loops makes the loops under test, over the client in the options. It is
	// called anew after each crash.
	Loops func(controllers.Options) []controllers.Controller
	// Others makes loops that play everybody else, over a sound client that
	// never crashes. May be nil.
	Others func(controllers.Options) []controllers.Controller

	// Start files the claims. It may draw them from World.Rand: both plays of
	// a seed draw the same.
	Start func(*World)
	// Meanwhile changes claims amid the faults. May be nil. It must decide by
	// World.Rand and by what it filed itself, not by what the loops have done.
	Meanwhile func(*World)
	// End writes down the end state. What may differ from play to play (names
	// drawn at random, times, uids) is to be left out.
	End func(*World) string
	// Check looks at the end of each play. May be nil.
	Check func(*World) error

	// Faults are those of the second play; the zero value is DefaultFaults.
	Faults client.Faults
	// Renewal tells writes that a quiet world may see: those that say only that
	// somebody is still there. May be nil.
	Renewal func(client.Write) bool
	// Single leaves out the plays with two copies of the loops.
	Single bool
	// Runs is the number of seeds; 0 is 200. Less is for what costs much.
	Runs int
}

// DefaultFaults are harsh but let a loop get on.
var DefaultFaults = client.Faults{
	Refuse: 0.1, Conflict: 0.1, LoseAnswer: 0.1,
	LoseEvent: 0.15, DoubleEvent: 0.2, LateEvent: 0.2,
	Lag: lag, Slow: slow,
}
