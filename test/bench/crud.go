package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// measureStart reports the cold start, and memory and CPU once idle.
func measureStart(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	emit("cold start to /readyz", map[string]any{"ms": millis(c.ready), "target_ms": 500})
	if err := idle(ctx, 30*time.Second); err != nil {
		return err
	}
	cpu := c.cpu()
	if err := idle(ctx, 30*time.Second); err != nil {
		return err
	}
	emit("idle", map[string]any{"resident_mib": c.resident(), "cpu_percent": round(100 * (c.cpu() - cpu).Seconds() / 30), "target_resident_mib": 100, "target_cpu_percent": 1})
	return nil
}

// idle lets the server be; there is nothing to wait for but time.
func idle(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const configMaps = "/api/v1/namespaces/bench/configmaps"

func makeNamespace(ctx context.Context, c *cluster, name string) error {
	err := c.do(ctx, 0, http.MethodPost, "/api/v1/namespaces", "application/json",
		strings.NewReader(fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)), nil)
	if err != nil && strings.Contains(err.Error(), "AlreadyExists") {
		return nil
	}
	return err
}

// configMap is one with 1 KiB of data that does not compress.
func configMap(name string) io.Reader {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	data := make([]byte, 1024)
	for i := range data {
		data[i] = letters[rand.IntN(len(letters))]
	}
	return strings.NewReader(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"data":%q}}`, name, data))
}

// measureCRUD creates, gets, updates, applies, lists and deletes ConfigMaps.
func measureCRUD(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	if err := makeNamespace(ctx, c, "bench"); err != nil {
		return err
	}
	name := func(workers, i int) string { return fmt.Sprintf("cm-%d-%06d", workers, i) }
	for _, step := range []struct {
		workers, n int
	}{{1, 1000}, {16, 4000}, {64, 10000}} {
		for _, verb := range []struct {
			name   string
			f      func(w, i int) error
			target map[string]any // at 64 workers
		}{
			{"create", func(w, i int) error {
				return c.do(ctx, w, http.MethodPost, configMaps, "application/json", configMap(name(step.workers, i)), nil)
			}, map[string]any{"target_per_second": 2200, "target_cpu_ms": 0.3}},
			{"get", func(w, i int) error {
				return c.do(ctx, w, http.MethodGet, configMaps+"/"+name(step.workers, i), "", nil, nil)
			}, map[string]any{"target_per_second": 4000}},
			{"update", func(w, i int) error {
				return c.do(ctx, w, http.MethodPut, configMaps+"/"+name(step.workers, i), "application/json", configMap(name(step.workers, i)), nil)
			}, nil},
			{"server-side apply", func(w, i int) error { // of half the speed of update, or better
				return c.do(ctx, w, http.MethodPatch, configMaps+"/"+name(step.workers, i)+"?fieldManager=bench&force=true", "application/apply-patch+yaml", configMap(name(step.workers, i)), nil)
			}, nil},
		} {
			r, err := drive(ctx, c, step.n, step.workers, verb.f)
			if err != nil {
				return err
			}
			if step.workers == 64 {
				maps.Copy(r, verb.target)
			}
			emit(verb.name, r)
		}
	}
	// The ones of 1 and 16 workers go, so that 10,000 are left.
	r, err := drive(ctx, c, 5000, 64, func(w, i int) error {
		n := name(1, i)
		if i >= 1000 {
			n = name(16, i-1000)
		}
		return c.do(ctx, w, http.MethodDelete, configMaps+"/"+n, "", nil, nil)
	})
	if err != nil {
		return err
	}
	emit("delete", r)
	if err := measureList(ctx, c, emit); err != nil {
		return err
	}
	cpu, begin := c.cpu(), time.Now()
	if err := c.do(ctx, 0, http.MethodDelete, configMaps, "", nil, nil); err != nil {
		return err
	}
	emit("deletecollection of 10,000", map[string]any{"seconds": round(time.Since(begin).Seconds()), "server_cpu_s": (c.cpu() - cpu).Seconds(), "target_seconds": 3})
	return nil
}

// measureList reads what the namespace holds, in both media types.
func measureList(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	for _, media := range []struct{ name, accept string }{{"JSON", "application/json"}, {"protobuf", "application/vnd.kubernetes.protobuf"}} {
		var size int64
		ctx := accepting(ctx, media.accept)
		r, err := drive(ctx, c, 30, 1, func(w, i int) error {
			return c.do(ctx, w, http.MethodGet, configMaps, "", nil, func(body io.Reader) (err error) {
				size, err = io.Copy(io.Discard, body)
				return err
			})
		})
		if err != nil {
			return err
		}
		r["bytes"], r["target_p50_ms"], r["target_cpu_ms"] = size, 60, 20
		emit("list of 10,000 as "+media.name, r)
	}
	return nil
}

// measureMany reports memory with 30,000 ConfigMaps.
func measureMany(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	if err := makeNamespace(ctx, c, "bench"); err != nil {
		return err
	}
	r, err := drive(ctx, c, 30000, 64, func(w, i int) error {
		return c.do(ctx, w, http.MethodPost, configMaps, "application/json", configMap(fmt.Sprintf("cm-%06d", i)), nil)
	})
	if err != nil {
		return err
	}
	emit("resident after 30,000 ConfigMaps", map[string]any{"resident_mib": c.resident(), "target_resident_mib": 250, "creates_per_second": r["per_second"]})
	return nil
}
