// Package mutate makes input that nobody would send of input that somebody
// would, for tests of decoders and all that works on what strangers send.
//
//	mutate.Run(t, seeds, func(t *testing.T, data []byte) { ... })
//
// Run calls the func with as many mutations as there are Runs, one after the
// other, from a seed that it prints. It fails with the input that made the func
// panic, and shows the one that hangs. It needs no instrumentation: what the Go
// fuzzer finds by coverage it finds by numbers, nightly.
//
//	SETPOINT_MUTATIONS=1000000  how many runs (2,000 otherwise)
//	SETPOINT_MUTATION_SEED=42   where they start (by chance otherwise)
package mutate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

// Limits of one run, far above what any needs. They hold what "no hang" and
// "bounded memory" mean, not how fast something is.
const (
	hang   = time.Minute
	memory = 512 << 20 // allocated in one run
	kept   = 256 << 20 // more of it live after all runs than before
)

// Runs is how many mutations a test sends.
func Runs() int {
	if n, err := strconv.Atoi(os.Getenv("SETPOINT_MUTATIONS")); err == nil {
		return n
	}
	return 2000
}

// Run calls f with mutations of seeds, at first with the seeds themselves.
func Run(t *testing.T, seeds [][]byte, f func(t *testing.T, data []byte)) {
	t.Helper()
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("SETPOINT_MUTATION_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("SETPOINT_MUTATION_SEED=%d", seed)
	m := New(seed)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	allocated := before.TotalAlloc
	for i := range len(seeds) + Runs() {
		data := seeds[i%len(seeds)]
		if i >= len(seeds) {
			data = m.Bytes(seeds)
		}
		one(t, i, data, f)
		if t.Failed() {
			t.Fatalf("run %d: %q", i, shown(data))
		}
		if i%64 == 63 { // reading it stops the world
			runtime.ReadMemStats(&after)
			if after.TotalAlloc-allocated > 64*memory {
				t.Fatalf("%d MiB were allocated in 64 runs up to %d: %q", (after.TotalAlloc-allocated)>>20, i, shown(data))
			}
			allocated = after.TotalAlloc
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+kept {
		t.Errorf("%d MiB are kept after all runs, %d before", after.HeapAlloc>>20, before.HeapAlloc>>20)
	}
}

// one is one run: a panic names its input, and so does a hang.
func one(t *testing.T, i int, data []byte, f func(t *testing.T, data []byte)) {
	watch := time.AfterFunc(hang, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("run %d hangs: %q", i, data))
	})
	defer watch.Stop()
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("run %d: panic: %v\ninput: %q\n%s", i, p, data, debug.Stack())
		}
	}()
	f(t, data)
}

func shown(data []byte) []byte { return data[:min(len(data), 4<<10)] }

// Mutator makes mutations. It is one goroutine's.
type Mutator struct{ r *rand.Rand }

// New makes one that always makes the same of the same.
func New(seed uint64) *Mutator { return &Mutator{rand.New(rand.NewPCG(seed, 1))} }

// tokens are what decoders treat apart.
var tokens = []string{
	"null", "{}", "[]", `""`, "0", "-1", "1e400", "9223372036854775808", "-9223372036854775809", "0.1", "true", `"\u0000"`, "\xff", "\x00",
	`{"`, `":`, ",", "[", "{", "]", "}", `"$patch":"delete",`, `"$retainKeys":["a"],`, `"metadata":null,`, `"finalizers":["x"],`,
	"/metadata", "/-", "~1", "~0", "..", "a in (b)", "a notin (,)", "!a", "a==b,", "&a ", "*a", "--- \n", "<<: ", "\xd9\xd9\xf7", "\x9f", "\xbf", "\x5b\x7f\xff\xff\xff\xff\xff\xff\xff",
	"0001-01-01T00:00:00Z", "1e9", "1Ei", "-1m", "NaN",
}

// maxLength bounds a mutation.
const maxLength = 64 << 10

// Bytes is some seed, changed in one to eight places.
func (m *Mutator) Bytes(seeds [][]byte) []byte {
	data := bytes.Clone(seeds[m.r.IntN(len(seeds))])
	for range 1 + m.r.IntN(8) {
		data = m.change(data, seeds)
	}
	return data[:min(len(data), maxLength)]
}

func (m *Mutator) change(data []byte, seeds [][]byte) []byte {
	if len(data) == 0 {
		return []byte(tokens[m.r.IntN(len(tokens))])
	}
	from := m.r.IntN(len(data))
	to := from + m.r.IntN(min(len(data)-from, 64)+1)
	switch m.r.IntN(9) {
	case 0: // another bit
		data[from] ^= 1 << m.r.IntN(8)
	case 1: // another byte
		data[from] = byte(m.r.IntN(256))
	case 2: // something is missing
		return append(data[:from:from], data[to:]...)
	case 3: // something comes twice
		return splice(data, to, to, data[from:to])
	case 4: // something else in between
		return splice(data, from, from, []byte(tokens[m.r.IntN(len(tokens))]))
	case 5: // something else in its place
		return splice(data, from, to, []byte(tokens[m.r.IntN(len(tokens))]))
	case 6: // a part of another
		other := seeds[m.r.IntN(len(seeds))]
		if len(other) == 0 {
			return data
		}
		at := m.r.IntN(len(other))
		return splice(data, from, to, other[at:min(len(other), at+m.r.IntN(128))])
	case 7: // very deep
		open := []string{"[", `{"a":`, "\x81", "\xa1\x41a", "- ", "&a [*a,"}[m.r.IntN(6)]
		return splice(data, from, from, bytes.Repeat([]byte(open), 1<<m.r.IntN(12)))
	case 8: // cut off
		return data[:from]
	}
	return data
}

func splice(data []byte, from, to int, with []byte) []byte {
	out := make([]byte, 0, len(data)+len(with))
	out = append(out, data[:from]...)
	out = append(out, with...)
	return append(out, data[to:]...)
}
