package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// podEvent is what the figures need of a pod's watch event.
type podEvent struct {
	Type   string
	Object struct {
		Metadata struct{ Name, DeletionTimestamp string }
		Spec     struct{ NodeName string }
		Status   struct{ Phase string }
	}
	at time.Time
}

// rollout follows the pods of a Deployment.
type rollout struct {
	c      *cluster
	events chan podEvent
	end    chan error
	// when each living pod was first seen there, bound, running
	there, bound, running map[string]time.Time
}

// follow opens the watch of pods in the namespace bench.
func follow(ctx context.Context, c *cluster) (*rollout, error) {
	if err := makeNamespace(ctx, c, "bench"); err != nil {
		return nil, err
	}
	// Pods are refused until their namespace has its service account.
	for c.do(ctx, 0, http.MethodGet, "/api/v1/namespaces/bench/serviceaccounts/default", "", nil, nil) != nil {
		if err := idle(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
	}
	r := &rollout{c: c, events: make(chan podEvent, 1<<16), end: make(chan error, 1),
		there: map[string]time.Time{}, bound: map[string]time.Time{}, running: map[string]time.Time{}}
	opened := make(chan struct{})
	go func() {
		r.end <- c.do(ctx, 1, http.MethodGet, "/api/v1/namespaces/bench/pods?watch=1&timeoutSeconds=7200&resourceVersion=0", "", nil, func(body io.Reader) error {
			close(opened)
			lines := bufio.NewScanner(body)
			lines.Buffer(make([]byte, 64<<10), 4<<20)
			for lines.Scan() {
				e := podEvent{at: time.Now()}
				if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
					return err
				}
				r.events <- e
			}
			return lines.Err()
		})
	}()
	select {
	case <-opened:
		return r, nil
	case err := <-r.end:
		return nil, err
	}
}

func (r *rollout) until(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case e := <-r.events:
			name := e.Object.Metadata.Name
			if e.Type == "DELETED" || e.Object.Metadata.DeletionTimestamp != "" {
				delete(r.there, name)
				delete(r.bound, name)
				delete(r.running, name)
				continue
			}
			first(r.there, name, e.at, true)
			first(r.bound, name, e.at, e.Object.Spec.NodeName != "")
			first(r.running, name, e.at, e.Object.Status.Phase == "Running")
		case err := <-r.end:
			return fmt.Errorf("the watch of pods ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("%d there, %d bound, %d running: %w", len(r.there), len(r.bound), len(r.running), context.Cause(ctx))
		}
	}
	return nil
}

func first(m map[string]time.Time, name string, at time.Time, reached bool) {
	if _, had := m[name]; !had && reached {
		m[name] = at
	}
}

func deployment(name, image string, replicas int) io.Reader {
	return strings.NewReader(fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[1]q},"spec":{"replicas":%[2]d,
		"selector":{"matchLabels":{"app":%[1]q}},"template":{"metadata":{"labels":{"app":%[1]q}},"spec":{"terminationGracePeriodSeconds":0,
		"containers":[{"name":"c","image":%[3]q,"imagePullPolicy":"IfNotPresent","resources":{"requests":{"cpu":"10m","memory":"16Mi"}}}]}}}}`, name, replicas, image))
}

const deployments = "/apis/apps/v1/namespaces/bench/deployments"

// waitForNodes waits until n nodes are ready.
func waitForNodes(ctx context.Context, c *cluster, n int) error {
	for {
		ready := 0
		err := c.do(ctx, 0, http.MethodGet, "/api/v1/nodes", "", nil, func(body io.Reader) error {
			var list struct {
				Items []struct {
					Spec   struct{ Taints []any }
					Status struct {
						Conditions []struct{ Type, Status string }
					}
				}
			}
			if err := json.NewDecoder(body).Decode(&list); err != nil {
				return err
			}
			for _, node := range list.Items {
				for _, cond := range node.Status.Conditions {
					if cond.Type == "Ready" && cond.Status == "True" && len(node.Spec.Taints) == 0 {
						ready++
					}
				}
			}
			return nil
		})
		if err != nil || ready >= n {
			return err
		}
		if err := idle(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d nodes ready: %w", ready, n, err)
		}
	}
}

// measureScale times a Deployment on 1,000 simulated nodes until all its pods
// are bound, and until all run.
func measureScale(ctx context.Context, c *cluster, replicas int, emit func(string, map[string]any)) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := waitForNodes(ctx, c, 1000); err != nil {
		return err
	}
	r, err := follow(ctx, c)
	if err != nil {
		return err
	}
	defer c.cpuProfile(ctx, time.Duration(5+replicas/500)*time.Second)()
	cpu, begin := c.cpu(), time.Now()
	if err := c.do(ctx, 0, http.MethodPost, deployments, "application/json", deployment("scale", "sim", replicas), nil); err != nil {
		return err
	}
	if err := r.until(ctx, func() bool { return len(r.bound) == replicas }); err != nil {
		return err
	}
	used := c.cpu() - cpu
	values := map[string]any{"replicas": replicas, "nodes": 1000, "bound_s": round(last(r.bound).Sub(begin).Seconds()), "there_s": round(last(r.there).Sub(begin).Seconds()),
		"server_cpu_ms_a_pod_until_bound": round(float64(used) / 1e6 / float64(replicas))}
	if err := r.until(ctx, func() bool { return len(r.running) == replicas }); err != nil {
		return err
	}
	values["running_s"] = round(last(r.running).Sub(begin).Seconds())
	values["server_cpu_ms_a_pod_until_running"] = round(float64(c.cpu()-cpu) / 1e6 / float64(replicas))
	values["target_bound_s"] = map[int]float64{1000: 1.5, 10000: 20}[replicas]
	values["target_cpu_ms_a_pod"] = 2
	emit(fmt.Sprintf("%d replicas on 1,000 simulated nodes", replicas), values)
	return measureRest(ctx, c, fmt.Sprintf("%d pods on 1,000 simulated nodes at rest", replicas), emit)
}

// measureRest reports memory and CPU after a while in which nothing was asked.
func measureRest(ctx context.Context, c *cluster, name string, emit func(string, map[string]any)) error {
	if err := idle(ctx, 20*time.Second); err != nil {
		return err
	}
	cpu := c.cpu()
	if err := idle(ctx, 20*time.Second); err != nil {
		return err
	}
	emit(name, map[string]any{"resident_mib": c.resident(), "cpu_percent": round(100 * (c.cpu() - cpu).Seconds() / 20)})
	return nil
}

func last(m map[string]time.Time) time.Time {
	var t time.Time
	for _, at := range m {
		if at.After(t) {
			t = at
		}
	}
	return t
}

// measureHeal deletes pods one after another and times their replacements.
func measureHeal(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := waitForNodes(ctx, c, 1000); err != nil {
		return err
	}
	r, err := follow(ctx, c)
	if err != nil {
		return err
	}
	if err := c.do(ctx, 0, http.MethodPost, deployments, "application/json", deployment("heal", "sim", 3), nil); err != nil {
		return err
	}
	whole := func() bool { return len(r.there) == 3 && len(r.running) == 3 }
	var there, bound []time.Duration
	for range 30 {
		if err := r.until(ctx, whole); err != nil {
			return err
		}
		if err := idle(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		var victim string
		for victim = range r.there {
		}
		begin := time.Now()
		if err := c.do(ctx, 0, http.MethodDelete, "/api/v1/namespaces/bench/pods/"+victim+"?gracePeriodSeconds=0", "", nil, nil); err != nil {
			return err
		}
		if err := r.until(ctx, func() bool { _, there := r.there[victim]; return !there && len(r.bound) == 3 }); err != nil {
			return err
		}
		there, bound = append(there, last(r.there).Sub(begin)), append(bound, last(r.bound).Sub(begin))
	}
	slices.Sort(there)
	slices.Sort(bound)
	emit("a deleted pod until its replacement is bound", map[string]any{"tries": len(bound), "there_p50_ms": millis(quantile(there, .5)),
		"p50_ms": millis(quantile(bound, .5)), "p99_ms": millis(quantile(bound, .99)), "target_p50_ms": 10})
	return nil
}

// measurePod times real pods, one after another, from the create request
// until Running, with an image that is there.
func measurePod(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := waitForNodes(ctx, c, 1); err != nil {
		return err
	}
	r, err := follow(ctx, c)
	if err != nil {
		return err
	}
	const pods = "/api/v1/namespaces/bench/pods"
	var took []time.Duration
	for i := range 10 {
		name := fmt.Sprintf("pod-%d", i)
		begin := time.Now()
		if err := c.do(ctx, 0, http.MethodPost, pods, "application/json", strings.NewReader(fmt.Sprintf(
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"terminationGracePeriodSeconds":0,"containers":[{"name":"c","image":"setpoint.local/demo:1","imagePullPolicy":"IfNotPresent"}]}}`, name)), nil); err != nil {
			return err
		}
		if err := r.until(ctx, func() bool { return !r.running[name].IsZero() }); err != nil {
			return err
		}
		took = append(took, r.running[name].Sub(begin))
		if err := c.do(ctx, 0, http.MethodDelete, pods+"/"+name, "", nil, nil); err != nil {
			return err
		}
		if err := r.until(ctx, func() bool { return len(r.there) == 0 }); err != nil {
			return err
		}
	}
	slices.Sort(took)
	emit("real pod, create until Running", map[string]any{"tries": len(took), "p50_ms": millis(quantile(took, .5)), "max_ms": millis(took[len(took)-1])})
	return nil
}
