package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// measureLost lets a node fall silent that has 110 pods, and times their
// replacements from when the node is tainted, which is when the eviction of pods
// without tolerations is due. The node is an object that this program renews.
func measureLost(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	const pods = 110
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := waitForNodes(ctx, c, 10); err != nil {
		return err
	}
	if err := post(ctx, c, "/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"lost"}}`); err != nil {
		return err
	}
	beating, stop := context.WithCancel(ctx)
	defer stop()
	if err := heartbeat(beating, c); err != nil {
		return err
	}
	go func() {
		for idle(beating, 5*time.Second) == nil {
			heartbeat(beating, c) // one that is missed is made up for by the next
		}
	}()
	if err := waitForNodes(ctx, c, 11); err != nil {
		return err
	}
	r, err := follow(ctx, c)
	if err != nil {
		return err
	}
	// All on the node that will be lost. The API server lets each pod stay on a
	// silent node for 300 s, but those that say otherwise.
	if err := cordon(ctx, c, true); err != nil {
		return err
	}
	body := strings.Replace(readAll(deployment("lost", "sim", pods)), `"terminationGracePeriodSeconds":0,`, `"terminationGracePeriodSeconds":0,
		"tolerations":[{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":0},
		{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":0}],`, 1)
	if err := post(ctx, c, deployments, body); err != nil {
		return err
	}
	if err := r.until(ctx, func() bool { return len(r.bound) == pods }); err != nil {
		return err
	}
	old := maps.Clone(r.bound)
	if err := cordon(ctx, c, false); err != nil {
		return err
	}
	stop()
	due, err := tainted(ctx, c)
	if err != nil {
		return err
	}
	cpu := c.cpu()
	if err := r.until(ctx, func() bool {
		for name := range old {
			if _, there := r.there[name]; there {
				return false
			}
		}
		return len(r.bound) == pods
	}); err != nil {
		return err
	}
	emit("a node lost with its pods, until all are bound elsewhere", map[string]any{"pods": len(old), "bound_ms": millis(last(r.bound).Sub(due)),
		"server_cpu_ms": round(float64((c.cpu() - cpu).Milliseconds())), "target_bound_ms": 1000})
	return nil
}

// cordon keeps pods from the simulated nodes, or lets them on again.
func cordon(ctx context.Context, c *cluster, keep bool) error {
	for i := range 10 {
		if err := c.do(ctx, 0, http.MethodPatch, fmt.Sprintf("/api/v1/nodes/sim-%d", i), "application/merge-patch+json",
			strings.NewReader(fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, keep)), nil); err != nil {
			return err
		}
	}
	return nil
}

// heartbeat says that the node is ready.
func heartbeat(ctx context.Context, c *cluster) error {
	now := time.Now().UTC().Format(time.RFC3339)
	return c.do(ctx, 0, http.MethodPatch, "/api/v1/nodes/lost/status", "application/strategic-merge-patch+json", strings.NewReader(fmt.Sprintf(
		`{"status":{"capacity":{"cpu":"32","memory":"64Gi","pods":"110"},"allocatable":{"cpu":"32","memory":"64Gi","pods":"110"},
		"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%[1]q,"lastTransitionTime":%[1]q}]}}`, now)), nil)
}

// tainted waits until the lost node's pods are to be evicted, and tells when
// that was seen.
func tainted(ctx context.Context, c *cluster) (time.Time, error) {
	for {
		found := false
		err := c.do(ctx, 0, http.MethodGet, "/api/v1/nodes/lost", "", nil, func(body io.Reader) error {
			var node struct {
				Spec struct{ Taints []struct{ Effect string } }
			}
			err := json.NewDecoder(body).Decode(&node)
			for _, t := range node.Spec.Taints {
				found = found || t.Effect == "NoExecute"
			}
			return err
		})
		if err != nil || found {
			return time.Now(), err
		}
		if err := idle(ctx, 5*time.Millisecond); err != nil {
			return time.Time{}, err
		}
	}
}

func post(ctx context.Context, c *cluster, path, body string) error {
	return c.do(ctx, 0, http.MethodPost, path, "application/json", strings.NewReader(body), nil)
}

func readAll(r io.Reader) string {
	var b bytes.Buffer
	b.ReadFrom(r)
	return b.String()
}
