package main

import (
	"context"
	"fmt"
	"time"
)

// measureDeployments reports what 10,000 Deployments cost that nobody touches.
func measureDeployments(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	const count = 10_000
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	if err := makeNamespace(ctx, c, "bench"); err != nil {
		return err
	}
	begin, cpu := time.Now(), c.cpu()
	for i := range count {
		if err := post(ctx, c, deployments, readAll(deployment(fmt.Sprintf("idle-%d", i), "sim", 0))); err != nil {
			return err
		}
	}
	if err := settle(ctx, c); err != nil {
		return err
	}
	emit("10,000 Deployments made and seen by their loops", map[string]any{"seconds": round(time.Since(begin).Seconds()), "server_cpu_ms_each": round(float64(c.cpu()-cpu) / 1e6 / count)})
	return measureRest(ctx, c, "10,000 idle Deployments", emit)
}

// settle waits until the server has used next to nothing for some seconds.
func settle(ctx context.Context, c *cluster) error {
	for {
		cpu := c.cpu()
		if err := idle(ctx, 3*time.Second); err != nil {
			return err
		}
		if c.cpu()-cpu < 300*time.Millisecond {
			return nil
		}
	}
}

// measureLarge fills simulated nodes with 30 pods each, of thirty Deployments.
func measureLarge(ctx context.Context, c *cluster, nodes int, emit func(string, map[string]any)) error {
	const workloads = 30
	all := 30 * nodes
	figure := fmt.Sprintf("%d pods on %d simulated nodes", all, nodes)
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	if err := waitForNodes(ctx, c, nodes); err != nil {
		return err
	}
	r, err := follow(ctx, c)
	if err != nil {
		return err
	}
	begin, cpu := time.Now(), c.cpu()
	for i := range workloads {
		if err := post(ctx, c, deployments, readAll(deployment(fmt.Sprintf("large-%d", i), "sim", all/workloads))); err != nil {
			return err
		}
	}
	if err := r.until(ctx, func() bool { return len(r.bound) == all }); err != nil {
		return err
	}
	values := map[string]any{"pods": all, "nodes": nodes, "bound_s": round(last(r.bound).Sub(begin).Seconds()), "server_cpu_ms_a_pod_until_bound": round(float64(c.cpu()-cpu) / 1e6 / float64(all))}
	if err := r.until(ctx, func() bool { return len(r.running) == all }); err != nil {
		return err
	}
	values["running_s"] = round(last(r.running).Sub(begin).Seconds())
	values["resident_mib"], values["peak_resident_mib"], values["target_resident_mib"] = c.resident(), c.peak(), 3072
	emit(figure, values)
	if err := c.heapProfile(ctx); err != nil {
		return err
	}
	return measureRest(ctx, c, figure+" at rest", emit)
}
