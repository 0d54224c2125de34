// Package storetest is the suite that every implementation of store.Store
// passes.
//
// Use: an implementation's test calls Run, or RunDurable when a store can be
// closed and opened again. Each case opens stores of its own.
//
// The randomised cases print their seed; -storetest.seed runs one again, and
// -storetest.steps makes them longer. Nothing here knows an implementation: a
// case may rely only on what the contract says.
package storetest

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/internal/store"
)

var (
	seedFlag  = flag.Uint64("storetest.seed", 0, "seed of the randomised store tests; 0 takes a new one")
	stepsFlag = flag.Int("storetest.steps", 3000, "steps of the randomised store tests")
)

// Open returns a fresh store, closed when the test ends.
type Open func(t *testing.T) store.Store

// Reopen closes a store and opens it again with what it kept.
type Reopen func(t *testing.T, s store.Store) store.Store

// Run runs the suite.
func Run(t *testing.T, open func(t *testing.T) store.Store) { run(t, open, nil) }

// RunDurable runs the suite, and opens stores again in the middle of it.
func RunDurable(t *testing.T, open func(t *testing.T) store.Store, reopen Reopen) {
	run(t, open, reopen)
}

func run(t *testing.T, open Open, reopen Reopen) {
	cases := []struct {
		name string
		run  func(*testing.T, store.Store)
	}{
		{"Fresh", testFresh},
		{"Put", testPut},
		{"Conditions", testConditions},
		{"Delete", testDelete},
		{"Fill", testFill},
		{"EmptyValue", testEmptyValue},
		{"Decoded", testDecoded},
		{"CanceledWrite", testCanceledWrite},
		{"Range", testRange},
		{"Pages", testPages},
		{"RangeBack", testRangeBack},
		{"RangeLimits", testRangeLimits},
		{"Watch", testWatch},
		{"WatchResume", testWatchResume},
		{"WatchFuture", testWatchFuture},
		{"WatchPrefix", testWatchPrefix},
		{"WatchIdle", testWatchIdle},
		{"WatchEnds", testWatchEnds},
		{"Compact", testCompact},
		{"Linearizable", testLinearizable},
		{"Watchers", testWatchers},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
	t.Run("Random", func(t *testing.T) { Random(t, open(t), reopen, Seed(t), *stepsFlag) })
	t.Run("Closed", func(t *testing.T) { testClosed(t, open(t)) })
}

// Seed returns the seed to use, and prints it.
func Seed(t testing.TB) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again with -storetest.seed=%d", seed)
	return seed
}

// waiting bounds what would otherwise hang when a store is wrong. No case
// depends on how long it is.
func waiting(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(t testing.TB, s store.Store, key, value string) *store.Record {
	t.Helper()
	r, err := s.Put(t.Context(), store.Put{Key: key, Value: []byte(value), Expect: store.Any})
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return r
}

func del(t testing.TB, s store.Store, key string) store.Event {
	t.Helper()
	e, err := s.Delete(t.Context(), key, store.Any)
	if err != nil {
		t.Fatalf("delete %s: %v", key, err)
	}
	return e
}

func wantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}
