package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	watchers     = 100
	fanoutEvents = 2000
)

// measureFanout opens watches, creates ConfigMaps and times each event from
// the start of its create request until it is read. Events are not decoded:
// that would measure this program.
func measureFanout(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	if err := makeNamespace(ctx, c, "bench"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c.clients = nil
	if err := c.connect(8); err != nil {
		return err
	}
	started := make([]atomic.Int64, fanoutEvents)
	epoch := time.Now()
	lat := make([][]time.Duration, watchers)
	errs := make([]error, watchers)
	var opened, done sync.WaitGroup
	opened.Add(watchers)
	for w := range watchers {
		done.Go(func() {
			errs[w] = c.do(ctx, w, http.MethodGet, configMaps+"?watch=1&timeoutSeconds=600&resourceVersion=0", "", nil, func(body io.Reader) error {
				opened.Done()
				lines := bufio.NewScanner(body)
				lines.Buffer(make([]byte, 64<<10), 1<<20)
				key := []byte(`"name":"fan-`)
				for len(lat[w]) < fanoutEvents && lines.Scan() {
					now := time.Since(epoch)
					if _, digits, ok := bytes.Cut(lines.Bytes(), key); ok {
						i, err := strconv.Atoi(string(digits[:bytes.IndexByte(digits, '"')]))
						if err == nil {
							lat[w] = append(lat[w], now-time.Duration(started[i].Load()))
						}
					}
				}
				return lines.Err()
			})
		})
	}
	opened.Wait()
	defer c.cpuProfile(ctx, 10*time.Second)()
	cpu, begin := c.cpu(), time.Now()
	if _, err := drive(ctx, c, fanoutEvents, 16, func(w, i int) error {
		started[i].Store(int64(time.Since(epoch)))
		return c.do(ctx, w, http.MethodPost, configMaps, "application/json", configMap(fmt.Sprintf("fan-%d", i)), nil)
	}); err != nil {
		return err
	}
	done.Wait()
	took, used := time.Since(begin), c.cpu()-cpu
	all := slices.Concat(lat...)
	slices.Sort(all)
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	emit("watch fan-out to 100", map[string]any{"events": len(all), "events_per_second": round(float64(len(all)) / took.Seconds()),
		"creates_per_second": round(fanoutEvents / took.Seconds()), "p50_ms": millis(quantile(all, .5)), "p99_ms": millis(quantile(all, .99)), "server_cpu_us_each": round(float64(used.Microseconds()) / float64(len(all))),
		"target_events_per_second": 150000, "target_p99_ms": 150, "target_cpu_us_each": 5})
	return nil
}
