package kubelet

import (
	"context"
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
			for uid := range k.leftovers() {
				if found[uid] != nil || k.known(uid) {
					continue
				}
				if err := k.devices.Unprepare(ctx, uid); err != nil {
					k.opts.Logger.Warn("orphaned devices stay", "pod", uid, "error", err)
				}
				if err := k.volumes.Unmount(ctx, uid); err != nil {
					k.opts.Logger.Warn("orphaned volumes stay", "pod", uid, "error", err)
				}
				if k.cgroups != nil {
					if err := k.cgroups.Remove(uid); err != nil {
						k.opts.Logger.Warn("orphaned group stays", "pod", uid, "error", err)
					}
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
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

// Gaps lists the pods that are not as claimed, and the node itself while it is
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
	return append(out, k.csi.Gaps()...)
}
