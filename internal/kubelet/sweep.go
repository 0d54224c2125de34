package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/pod"
	"github.com/setpoint-project/setpoint/loop"
)

func isUnimplemented(err error) bool { return status.Code(err) == codes.Unimplemented }

const sweepEvery = time.Minute

// sweep takes away what is left on the node of pods that neither the API
// server nor the runtime knows: devices, folders, mounts and groups.
func (k *Kubelet) sweep(ctx context.Context) {
	for {
		if found, err := k.list(ctx); err == nil {
			k.clear(ctx, func(uid types.UID) bool { return found[uid] != nil || k.known(uid) })
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
}

// ofOrphans is the namespace of gaps that are about what pods have left, which
// no namespace is called.
const ofOrphans = "/orphaned"

// clear takes away what is left of pods that are not known. What stays is a gap,
// under the pod's uid, until it is gone.
func (k *Kubelet) clear(ctx context.Context, known func(types.UID) bool) {
	stays := map[loop.Key]bool{}
	for uid := range k.leftovers() {
		if known(uid) {
			continue
		}
		if err := k.remove(ctx, uid); err != nil && ctx.Err() == nil {
			key := loop.Key{Namespace: ofOrphans, Name: string(uid)}
			stays[key] = true
			k.opts.Logger.Warn("what a pod has left stays", "pod", uid, "error", err)
			k.observe(key, loop.Outcome{}, err, 0)
		}
	}
	if ctx.Err() == nil {
		k.gaps.keep(ofOrphans, stays)
	}
}

// remove takes away all that is left of a pod.
func (k *Kubelet) remove(ctx context.Context, uid types.UID) error {
	var errs []error
	if err := k.devices.Unprepare(ctx, uid); err != nil {
		errs = append(errs, fmt.Errorf("orphaned devices: %w", err))
	}
	if err := k.volumes.Unmount(ctx, uid); err != nil {
		errs = append(errs, fmt.Errorf("orphaned volumes: %w", err))
	}
	if k.cgroups != nil {
		if err := k.cgroups.Remove(uid); err != nil {
			errs = append(errs, fmt.Errorf("orphaned group: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (k *Kubelet) leftovers() map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, uid := range k.volumes.Pods() {
		out[uid] = true
	}
	for _, uid := range k.devices.Pods() {
		out[uid] = true
	}
	if k.cgroups != nil {
		for _, uid := range k.cgroups.Pods() {
			out[uid] = true
		}
	}
	return out
}

// known tells whether a pod has a worker or is in the API server.
func (k *Kubelet) known(uid types.UID) bool {
	if k.wake(uid, func(*pod.Worker) {}) {
		return true
	}
	return k.pods.CountIndex(byUID, string(uid)) > 0
}

// byUID indexes the node's pods.
const byUID = "kubelet.uid"

func uidOf(o client.Object) []string { return []string{string(o.GetUID())} }

// gaps are the pods that are not as claimed.
type gaps struct {
	mu    sync.Mutex
	known map[loop.Key]loop.Gap // guarded by mu
}

func (g *gaps) forget(key loop.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, key)
}

// keep forgets the gaps of a namespace that are no more.
func (g *gaps) keep(namespace string, still map[loop.Key]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key := range g.known {
		if key.Namespace == namespace && !still[key] {
			delete(g.known, key)
		}
	}
}

func (k *Kubelet) observe(key loop.Key, o loop.Outcome, err error, took time.Duration) {
	g := loop.Gap{Loop: "kubelet", Key: key, State: o.State, On: o.On, Reason: o.Reason, Since: time.Now()}
	if err != nil {
		g.State, g.Reason = loop.Failing, err.Error()
	}
	k.gaps.mu.Lock()
	if g.State == loop.Converged {
		delete(k.gaps.known, key)
	} else if had, ok := k.gaps.known[key]; !ok || had.State != g.State || had.On != g.On || had.Reason != g.Reason {
		k.gaps.known[key] = g
	}
	k.gaps.mu.Unlock()
	if k.opts.Observer != nil {
		k.opts.Observer(key, o, err, took)
	}
}

// Name of the loop.
func (k *Kubelet) Name() string { return "kubelet" }

// Gaps lists the pods that are not as claimed, what pods that are gone have left,
// what drivers are asked for in vain, and the node itself while it is
// not ready: calls to a runtime that hangs come back to no pod's worker.
func (k *Kubelet) Gaps() []loop.Gap {
	k.gaps.mu.Lock()
	defer k.gaps.mu.Unlock()
	out := make([]loop.Gap, 0, len(k.gaps.known)+1)
	if why, since := k.node.Problem(); why != "" {
		out = append(out, loop.Gap{Loop: k.Name(), Key: loop.Key{Name: k.opts.NodeName}, State: loop.Waiting, On: "the container runtime", Reason: why, Since: since})
	}
	for _, g := range k.gaps.known {
		out = append(out, g)
	}
	return append(append(out, k.csi.Gaps()...), k.devices.Gaps()...)
}
