package cli

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// After much work a server keeps what the work left until the next collection,
// which little work does not bring about: Go's own comes after two minutes, and
// gives what it frees back to the machine bit by bit.
const (
	restLook = 10 * time.Second // how often to look
	// Quiet is a server that allocates less than this from look to look.
	restQuiet = 4 << 20
	// What is worth a collection: this much allocated since the last.
	restWorth = 32 << 20
)

// resting decides when a server that has become quiet is collected.
type resting struct {
	cycles, allocated uint64 // as of the last look
	since             uint64 // allocated as of the last collection
}

// look tells whether to collect, by the collections so far and the bytes
// allocated so far.
func (r *resting) look(cycles, allocated uint64) bool {
	quiet := allocated-r.allocated < restQuiet
	if cycles != r.cycles {
		// Somewhere in between; what came before it was collected.
		r.since = r.allocated
	}
	r.cycles, r.allocated = cycles, allocated
	if !quiet || allocated-r.since < restWorth {
		return false
	}
	r.since = allocated
	return true
}

// restHeap collects the heap of a server that has become quiet, and gives what
// is free back to the machine, until ctx ends. Who sets GOGC wants it otherwise.
func restHeap(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/allocs:bytes"}}
	var r resting
	for tick := time.NewTicker(restLook); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		if r.look(sample[0].Value.Uint64(), sample[1].Value.Uint64()) {
			debug.FreeOSMemory()
		}
	}
}
