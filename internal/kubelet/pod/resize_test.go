package pod_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/cgroup"
	"github.com/setpoint-project/setpoint/internal/kubelet/pod"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

const resizable = `
spec:
  restartPolicy: %s
  containers:
  - name: main
    image: "img:1"
    command: [run]
    resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 200m, memory: 400Mi}}
    resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: %s}]
`

// resize files other requests; limits are twice as much.
func (w *world) resize(milli, mebibytes int64) {
	w.t.Helper()
	list := func(n int64) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(n*milli, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(n*mebibytes<<20, resource.BinarySI)}
	}
	for {
		p := w.get().DeepCopy()
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list(1), Limits: list(2)}
		_, err := w.client.Update(w.t.Context(), pod.Resource, p, "resize")
		if apierrors.IsConflict(err) {
			continue // the worker wrote a status
		}
		if err != nil {
			w.t.Error(err)
		}
		return
	}
}

// size says what a pod has, and its conditions of a resize.
func size(p *v1.Pod) string {
	s := p.Status.ContainerStatuses[0]
	out := fmt.Sprintf("given %dm %dMi, limits %dm %dMi, %d restarts", s.AllocatedResources.Cpu().MilliValue(), s.AllocatedResources.Memory().Value()>>20,
		s.Resources.Limits.Cpu().MilliValue(), s.Resources.Limits.Memory().Value()>>20, s.RestartCount)
	for _, c := range p.Status.Conditions {
		if strings.HasPrefix(string(c.Type), "PodResize") {
			out += fmt.Sprintf("; %s %s %s", c.Type, c.Reason, c.Message)
		}
	}
	return out
}

func (w *world) size(what, want string) {
	w.t.Helper()
	if got := size(w.get()); got != want {
		w.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// again starts the worker again, on a host with groups that are never made.
func (w *world) again() {
	w.stop()
	w.deps.Cgroups = &cgroup.Tree{}
	worker := w.start()
	w.t.Cleanup(w.deps.Pods.Handle(func(_, _ client.Object) { worker.Wake() }))
}

func TestResizeInPlace(t *testing.T) {
	bubble(t, fmt.Sprintf(resizable, "Always", "NotRequired"), func(w *world) {
		w.again()
		w.after(10 * time.Second)
		w.size("as it was made", "given 100m 200Mi, limits 200m 400Mi, 0 restarts")
		w.resize(150, 300)
		w.after(10 * time.Second)
		w.size("resized", "given 150m 300Mi, limits 300m 600Mi, 0 restarts")
		if n := w.count("UpdateContainerResources main"); n != 1 {
			t.Errorf("the runtime was asked %d times, want once", n)
		}
		// A kubelet that restarts finds nothing to do.
		w.again()
		w.after(5 * time.Minute)
		w.size("after a restart of the kubelet", "given 150m 300Mi, limits 300m 600Mi, 0 restarts")
		if n := w.count("UpdateContainerResources main"); n != 1 {
			t.Errorf("the runtime was asked %d times, want once", n)
		}
	})
}

// A kubelet that dies between what is given and what is done goes on.
func TestResizeFails(t *testing.T) {
	bubble(t, fmt.Sprintf(resizable, "Always", "NotRequired"), func(w *world) {
		w.after(10 * time.Second)
		var fail atomic.Bool
		fail.Store(true)
		w.rt.Fail = func(call string) error {
			if fail.Load() && call == "UpdateContainerResources" {
				return errors.New("busy")
			}
			return nil
		}
		w.again()
		w.resize(150, 300)
		w.after(10 * time.Second)
		w.again()
		w.after(10 * time.Second)
		w.size("while it fails", "given 150m 300Mi, limits 200m 400Mi, 0 restarts; PodResizeInProgress Error busy")
		fail.Store(false)
		w.after(time.Minute)
		w.size("then", "given 150m 300Mi, limits 300m 600Mi, 0 restarts")
		// The container uses 100 MiB.
		w.resize(150, 30)
		w.after(10 * time.Second)
		if got := size(w.get()); !strings.Contains(got, "below its current usage (104857600)") || !strings.Contains(got, "limits 300m 600Mi") {
			t.Errorf("a limit below what is used: %s", got)
		}
	})
}

func TestResizeRestarts(t *testing.T) {
	for _, policy := range []string{"Always", "OnFailure"} { // it ends with 0
		bubble(t, fmt.Sprintf(resizable, policy, "RestartContainer"), func(w *world) {
			w.again()
			w.after(10 * time.Second)
			w.resize(150, 200)
			w.after(10 * time.Second)
			w.size("CPU needs no restart", "given 150m 200Mi, limits 300m 400Mi, 0 restarts")
			w.resize(150, 300)
			w.after(time.Minute)
			w.size("memory does", "given 150m 300Mi, limits 300m 600Mi, 1 restarts")
			if p := w.get(); p.Status.Phase != v1.PodRunning || !p.Status.ContainerStatuses[0].Ready {
				t.Errorf("%s: status is %+v", policy, p.Status)
			}
		})
	}
}

func TestResizePending(t *testing.T) {
	bubble(t, fmt.Sprintf(resizable, "Always", "NotRequired"), func(w *world) {
		w.after(10 * time.Second)
		var room atomic.Bool
		w.deps.Fits = func(*v1.Pod) *status.Pending {
			if room.Load() {
				return nil
			}
			return &status.Pending{Reason: v1.PodReasonDeferred, Message: "full"}
		}
		w.again()
		w.resize(150, 300)
		w.after(time.Minute)
		w.size("no room", "given 100m 200Mi, limits 200m 400Mi, 0 restarts; PodResizePending Deferred full")
		room.Store(true)
		w.after(time.Minute)
		w.size("room", "given 150m 300Mi, limits 300m 600Mi, 0 restarts")
		room.Store(false)
		w.resize(100, 200) // taken back before it is looked at again
		w.resize(150, 300)
		w.after(time.Minute)
		w.size("nothing asked", "given 150m 300Mi, limits 300m 600Mi, 0 restarts")
	})
}
