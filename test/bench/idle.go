package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const idleWatches = 10000

// measureIdle opens watches of which nothing comes, and tells what they hold:
// of every kind of client, most watch what hardly ever changes.
func measureIdle(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	if err := makeNamespace(ctx, c, "bench"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := idle(ctx, 10*time.Second); err != nil {
		return err
	}
	before := c.resident()
	c.clients = nil
	if err := c.connect(20); err != nil {
		return err
	}
	var opened, done sync.WaitGroup
	opened.Add(idleWatches)
	errs := make([]error, idleWatches)
	for w := range idleWatches {
		done.Go(func() {
			began := false
			errs[w] = c.do(ctx, w, http.MethodGet, configMaps+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=600&resourceVersion=0", "", nil, func(body io.Reader) error {
				began = true
				opened.Done()
				_, err := io.Copy(io.Discard, body)
				return err
			})
			if !began {
				opened.Done()
			}
		})
	}
	opened.Wait()
	if err := idle(ctx, 20*time.Second); err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("a watch: %w", err)
		}
	}
	after, cpu := c.resident(), c.cpu()
	if err := idle(ctx, 20*time.Second); err != nil {
		return err
	}
	emit("idle watches", map[string]any{"watches": idleWatches, "resident_mib": after, "kib_each": round((after - before) * 1024 / idleWatches),
		"cpu_percent": round(100 * (c.cpu() - cpu).Seconds() / 20), "target_kib_each": 20})
	err := c.heapProfile(ctx)
	cancel()
	done.Wait()
	return err
}
