package controllertest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
)

var (
	onlySeed = flag.Int64("seed", -1, "play this seed only")
	moreRuns = flag.Int("runs", 0, "play this many seeds")
	copies   = flag.Int("copies", 0, "of the loops at once, in every seed")
)

// What nights are told by: most packages know no such flags.
const (
	seedsVariable     = "SETPOINT_SEEDS"      // how many seeds
	firstVariable     = "SETPOINT_FIRST_SEED" // from which on
	processesVariable = "SETPOINT_PROCESSES"  // by how many processes; 1 is this one
	copiesVariable    = "SETPOINT_COPIES"     // how many copies of the loops, in every seed
)

// doubled is which of so many seeds has two copies of the loops.
const doubled = 4

// copiesOf says how many copies of the loops a seed has, and how many seeds
// before it have as many.
func copiesOf(t *testing.T, seed uint64) (n, nth int) {
	t.Helper()
	all := *copies
	if all == 0 {
		all = int(number(t, copiesVariable))
	}
	switch {
	case all > 0:
		return all, int(seed)
	case seed%doubled == doubled-1:
		return 2, int(seed / doubled)
	}
	return 1, int(seed - seed/doubled)
}

// seeds says which seeds are played, where a Case asks for runs of them.
func seeds(t *testing.T, runs int) (first, n uint64) {
	t.Helper()
	if *onlySeed >= 0 {
		return uint64(*onlySeed), 1
	}
	first, n = number(t, firstVariable), number(t, seedsVariable)
	switch {
	case *moreRuns > 0:
		n = uint64(*moreRuns)
	case n == 0 && runs > 0:
		n = uint64(runs)
	case n == 0:
		n = 200
	}
	if testing.Short() {
		n = min(n, 10)
	}
	return first, n
}

// number is that of a variable, 0 when it is not set.
func number(t *testing.T, variable string) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// spread plays n seeds from first on by several processes, each this test with
// a share of them: a Case may keep what it likes in variables, so one process
// plays one seed at a time.
func spread(t *testing.T, first, n, processes uint64) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range processes {
		from, to := first+n*i/processes, first+n*(i+1)/processes
		if from == to {
			continue
		}
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=0")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", firstVariable, from), fmt.Sprintf("%s=%d", seedsVariable, to-from), processesVariable+"=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("seeds %d to %d: %v\n%s", from, to-1, err, out)
			}
		})
	}
	wg.Wait()
}
