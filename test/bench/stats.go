package main

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

func round(x float64) float64 { return math.Round(x*1000) / 1000 }

func millis(d time.Duration) float64 { return round(float64(d) / 1e6) }

// quantile of sorted latencies.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// drive calls f for 0..n-1 from workers goroutines and returns throughput,
// latencies and the server's CPU for each call.
func drive(ctx context.Context, c *cluster, n, workers int, f func(worker, i int) error) (map[string]any, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	failed := 0
	lat := make([]time.Duration, n)
	defer c.cpuProfile(ctx, 5*time.Second)()
	cpu, begin := c.cpu(), time.Now()
	for w := range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				t := time.Now()
				err := f(w, i)
				lat[i] = time.Since(t)
				if err != nil {
					mu.Lock()
					failed++
					first = cmp.Or(first, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	used := c.cpu() - cpu
	slices.Sort(lat)
	return map[string]any{
		"n": n, "workers": workers, "errors": failed,
		"per_second": round(float64(n) / took.Seconds()), "p50_ms": millis(quantile(lat, .5)), "p99_ms": millis(quantile(lat, .99)),
		"server_cpu_ms_each": round(float64(used) / 1e6 / float64(n)),
	}, cmp.Or(first, ctx.Err())
}
