package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much room above what lives a server's heap gets before it is collected.
// Go's default, as much again, is right for a small heap, where it is what makes
// collections seldom. A server that holds 150,000 pods would keep more than a
// gigabyte free for that: what lies above freely gets half of its size only.
const freely = 64 << 20

// roomFor is the percentage of room for a heap of which live bytes live. The
// runtime takes it of the roots as well, which stacks and globals are.
func roomFor(live, roots uint64) int {
	if live <= freely {
		return 100
	}
	return int(100 * (freely + (live-freely)/2) / (live + roots))
}

// tendHeap sets the room of the heap after each collection, as long as the
// process runs. Who sets GOGC wants it otherwise.
func tendHeap() {
	if os.Getenv("GOGC") != "" {
		return
	}
	now := 100
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	afterCollection(func() {
		metrics.Read(sample)
		for _, s := range sample {
			if s.Value.Kind() != metrics.KindUint64 {
				return
			}
		}
		want := roomFor(sample[0].Value.Uint64(), sample[1].Value.Uint64()+sample[2].Value.Uint64())
		// To set it stops all goroutines for a moment: not for a trifle.
		if want != now && (want == 100 || max(want-now, now-want) >= 5) {
			now = want
			debug.SetGCPercent(want)
		}
	})
}

// afterCollection calls f after each collection from now on, in a goroutine of
// the runtime.
func afterCollection(f func()) {
	type unreachable struct{ self *unreachable } // a pointer keeps it out of what is allocated together
	runtime.AddCleanup(new(unreachable), func(f func()) {
		f()
		afterCollection(f)
	}, f)
}
