package local_test

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/internal/store"
	"github.com/setpoint-project/setpoint/internal/store/local"
)

func places(b *testing.B) map[string]func(*testing.B) *local.Store {
	return map[string]func(*testing.B) *local.Store{
		"memory": func(b *testing.B) *local.Store { return mustOpen(b, local.Options{}) },
		"disk":   func(b *testing.B) *local.Store { return mustOpen(b, local.Options{Dir: b.TempDir()}) },
	}
}

// BenchmarkPut writes values of 1 KiB to new keys.
func BenchmarkPut(b *testing.B) {
	for place, open := range places(b) {
		for _, workers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/workers=%d", place, workers), func(b *testing.B) {
				s := open(b)
				var n atomic.Int64
				cpu := cpuTime()
				parallel(b, workers, func() {
					put := store.Put{
						Key:   fmt.Sprintf("/registry/configmaps/default/%08d", n.Add(1)),
						Value: bytes.Repeat([]byte("0123456789abcdef"), 64),
					}
					if _, err := s.Put(b.Context(), put); err != nil {
						b.Error(err)
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
				b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/put")
			})
		}
	}
}

// BenchmarkUpdate writes the same few keys again and again, in a store that
// holds many.
func BenchmarkUpdate(b *testing.B) {
	for place, open := range places(b) {
		b.Run(place+"/workers=64", func(b *testing.B) {
			s := open(b)
			fill(b, s, 10_000)
			var n atomic.Int64
			parallel(b, 64, func() {
				put := store.Put{
					Key:    fmt.Sprintf("/registry/leases/kube-node-lease/%04d", n.Add(1)%1000),
					Value:  bytes.Repeat([]byte("x"), 400),
					Expect: store.Any,
				}
				if _, err := s.Put(b.Context(), put); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	s := mustOpen(b, local.Options{})
	fill(b, s, 30_000)
	b.ReportAllocs()
	for i := range b.N {
		if r, _, _ := s.Get(b.Context(), fillKey(i%30_000)); r == nil {
			b.Fatal("nothing there")
		}
	}
}

func BenchmarkRange(b *testing.B) {
	s := mustOpen(b, local.Options{})
	fill(b, s, 10_000)
	rev := s.Revision()
	for range 1000 {
		mustPut(b, s, "/registry/configmaps/default/00000007", "x")
	}
	for _, c := range []struct {
		name  string
		query store.Range
	}{
		{"all", store.Range{}},
		{"page", store.Range{Limit: 500, After: fillKey(5000)}},
		{"back", store.Range{Revision: rev}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.query.Prefix = "/registry/configmaps/"
			for b.Loop() {
				if _, err := s.Range(b.Context(), c.query); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			if n, _ := s.Count(b.Context(), "/registry/configmaps/"); n != 10_000 {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkWatch measures a write that 100 watches see, among 1000 watches of
// other things.
func BenchmarkWatch(b *testing.B) {
	s := mustOpen(b, local.Options{})
	const watches = 100
	for i := range 1000 {
		if _, err := s.Watch(b.Context(), fmt.Sprintf("/registry/other%d/", i), 1); err != nil {
			b.Fatal(err)
		}
	}
	seen := make(chan int64, watches)
	for range watches {
		w, err := s.Watch(b.Context(), "/registry/configmaps/", 1)
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			n := 0
			for n < b.N {
				events, upTo, err := w.Next(b.Context())
				if err != nil {
					return
				}
				n += len(events)
				if n >= b.N {
					seen <- upTo
				}
			}
		}()
	}
	b.ResetTimer()
	parallel(b, 16, func() { mustPut(b, s, "/registry/configmaps/default/x", "value") })
	for range watches {
		<-seen
	}
	b.ReportMetric(float64(b.N*watches)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkOpen opens a folder of 30,000 keys, and an empty one.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{0, 30_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			var took time.Duration
			dir := b.TempDir()
			if n > 0 {
				s := mustOpen(b, local.Options{Dir: dir})
				fill(b, s, n)
				s.Close()
			}
			for i := range b.N {
				if n == 0 {
					dir = fmt.Sprint(b.TempDir(), i)
				}
				start := time.Now()
				s, err := local.Open(local.Options{Dir: dir})
				took += time.Since(start)
				if err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
			b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "ms/open")
		})
	}
}

// BenchmarkMemory reports what 30,000 values of 1.2 KiB take, of the data.
func BenchmarkMemory(b *testing.B) {
	for place, open := range places(b) {
		b.Run(place, func(b *testing.B) {
			for range b.N {
				before := heap()
				s := open(b)
				fill(b, s, 30_000)
				b.ReportMetric(float64(heap()-before)/float64(30_000*fillBytes), "heap/data")
				s.Close()
			}
		})
	}
}

const fillBytes = 1200

func fillKey(i int) string { return fmt.Sprintf("/registry/configmaps/default/%08d", i) }

// fill writes n keys.
func fill(b testing.TB, s *local.Store, n int) {
	var next atomic.Int64
	done := make(chan bool)
	for range 64 {
		go func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				put := store.Put{Key: fillKey(i), Value: make([]byte, fillBytes), Expect: store.Any}
				if _, err := s.Put(b.Context(), put); err != nil {
					b.Error(err)
				}
			}
			done <- true
		}()
	}
	for range 64 {
		<-done
	}
}

// parallel runs f b.N times on a number of goroutines.
func parallel(b *testing.B, workers int, f func()) {
	b.ResetTimer()
	var next atomic.Int64
	done := make(chan bool)
	for range workers {
		go func() {
			for next.Add(1) <= int64(b.N) {
				f()
			}
			done <- true
		}()
	}
	for range workers {
		<-done
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
