package pod

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// killing is a container that is being stopped. Its deadline may come nearer
// while the stop is under way, never go further.
type killing struct {
	mu       sync.Mutex
	deadline time.Time     // guarded by mu
	sooner   chan struct{} // one slot: the deadline came nearer
}

const slack = 500 * time.Millisecond

func (k *killing) left() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Until(k.deadline)
}

func (k *killing) shorten(to time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// The pod's own deadline, from which this one was taken a moment ago, is
	// no nearer one.
	if to.Add(slack).Before(k.deadline) {
		k.deadline = to
		select {
		case k.sooner <- struct{}{}:
		default:
		}
	}
}

// shorten passes a shorter grace of the pod on to the stops under way.
func (w *Worker) shorten() {
	if w.stop == nil {
		return
	}
	for _, k := range w.kills {
		k.shorten(w.stop.Deadline)
	}
}

// minGrace is what a container has at least between the signal to end and the
// kill, also when its preStop hook used the time up.
const minGrace = 2 * time.Second

func (w *Worker) stopContainer(ctx context.Context, pod *v1.Pod, a Action) func() func() {
	k := &killing{deadline: time.Now().Add(a.Grace), sooner: make(chan struct{}, 1)}
	w.kills[a.ID] = k
	if a.Resize {
		w.restart[a.ID] = true
	}
	c := container(pod, a.Container)
	have := w.state.Container(a.ID)
	host := ""
	for _, b := range w.state.Sandboxes {
		if have != nil && b.ID == have.SandboxID {
			host = podHost(w.deps, pod, b)
		}
	}
	hook := c != nil && c.Lifecycle != nil && c.Lifecycle.PreStop != nil && have != nil && have.Running() && a.Grace > 0
	if w.stop != nil || w.health[a.ID] != nil {
		w.deps.Events.Pod(pod, a.Container, v1.EventTypeNormal, "Killing", "%s", a.Why)
	}
	return func() func() {
		least := time.Duration(0)
		if hook {
			least = minGrace
			w.preStop(ctx, pod, c, a.ID, host, k)
		}
		err := w.deps.terminate(ctx, a.ID, k, least)
		return func() {
			delete(w.kills, a.ID)
			w.stale.Store(true)
			if err != nil && !cri.IsNotFound(err) {
				if ctx.Err() == nil {
					w.deps.Log.Info("container not stopped", "key", pod.Namespace+"/"+pod.Name, "container", a.Container, "error", err)
				}
				w.fail(held(StopContainer), v1.ContainerStateWaiting{})
			}
		}
	}
}

// preStop runs the hook, for as long as the grace lasts.
func (w *Worker) preStop(ctx context.Context, pod *v1.Pod, c *v1.Container, id, host string, k *killing) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.deps.runHook(ctx, pod, c, id, host, c.Lifecycle.PreStop) }()
	for {
		timer := time.NewTimer(max(k.left(), 0))
		select {
		case err := <-done:
			timer.Stop()
			if err != nil && ctx.Err() == nil {
				w.deps.Events.Pod(pod, c.Name, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
			}
			return
		case <-timer.C:
			return
		case <-k.sooner:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// terminate asks the container to end and kills it at the deadline. When the
// deadline comes nearer the runtime is asked again, with what is left.
func (d *Deps) terminate(ctx context.Context, id string, k *killing, least time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, 1)
	ask := func() {
		left := max(k.left(), least)
		_, err := d.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{
			ContainerId: id, Timeout: int64((left + time.Second - 1) / time.Second)})
		select {
		case results <- err:
		default:
		}
	}
	go ask()
	var errs []error
	for asked := 1; ; {
		select {
		case err := <-results:
			if err == nil || cri.IsNotFound(err) {
				return nil
			}
			errs = append(errs, err)
			if len(errs) >= asked {
				return errors.Join(errs...)
			}
		case <-k.sooner:
			asked++
			go ask()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
