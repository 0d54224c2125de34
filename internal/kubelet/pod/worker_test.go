package pod_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri/critest"
	"github.com/setpoint-project/setpoint/internal/kubelet/dra"
	"github.com/setpoint-project/setpoint/internal/kubelet/env"
	"github.com/setpoint-project/setpoint/internal/kubelet/image"
	"github.com/setpoint-project/setpoint/internal/kubelet/object"
	"github.com/setpoint-project/setpoint/internal/kubelet/pod"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
)

// world is one worker with a runtime and an API server, in virtual time.
type world struct {
	t      *testing.T
	rt     *critest.Runtime
	client client.Interface
	deps   *pod.Deps
	began  time.Time

	mu     sync.Mutex
	events []string

	cancel context.CancelFunc
	done   chan struct{}
}

// Pod records an event.
func (w *world) Pod(_ *v1.Pod, container, _, reason, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, strings.TrimSpace(container+" "+reason+": "+fmt.Sprintf(format, args...)))
}

// bubble runs f in virtual time, with a pod of which spec is the YAML.
func bubble(t *testing.T, spec string, f func(w *world)) {
	t.Helper()
	prepared(t, spec, func(*world) {}, f)
}

// prepared is bubble in a world that prepare has changed before the worker
// starts.
func prepared(t *testing.T, spec string, prepare, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		w := &world{t: t, rt: critest.New("img:1"), client: h.Client("system:node:n1"), began: time.Now()}
		p := &v1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(spec), p); err != nil {
			t.Fatal(err)
		}
		p.Name, p.Namespace, p.Spec.NodeName = "p", "default", "n1"
		if _, err := w.client.Create(t.Context(), pod.Resource, p); err != nil {
			t.Fatal(err)
		}
		var worker *pod.Worker
		objects := object.New(w.client, func(types.UID) { worker.WakeObject() })
		view := w.client.View(pod.Resource, client.ViewOptions{})
		devices, err := dra.New(dra.Options{Node: "n1", Client: w.client, Root: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		w.deps = &pod.Deps{
			Runtime: w.rt, Client: w.client, Pods: view, Objects: objects, Events: w,
			Images: image.New(image.Options{Images: w.rt, Events: w, Secrets: objects.Secret}),
			Volumes: volume.New(volume.Options{Root: t.TempDir(), Objects: objects,
				Facts: func(*v1.Pod) env.Pod { return env.Pod{} }}),
			Devices: devices, Owner: "test", HostIPs: []string{"192.0.2.1"}, LogsDir: t.TempDir(), ClusterDomain: "cluster.local", Log: slog.New(slog.DiscardHandler),
		}
		prepare(w)
		worker = w.start()
		remove := view.Handle(func(_, _ client.Object) { worker.Wake() })
		f(w)
		remove()
		w.stop()
	})
}

// start starts a worker, as a kubelet does that finds the pod.
func (w *world) start() *pod.Worker {
	worker := pod.New(w.deps, w.get())
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.done = cancel, make(chan struct{})
	// The kubelet wakes a worker when its pod changes in the runtime.
	stream, err := w.rt.GetContainerEvents(ctx, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		worker.Run(ctx)
	}()
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
			worker.WakeRuntime()
		}
	}()
	return worker
}

func (w *world) stop() {
	w.cancel()
	<-w.done
}

// after lets time pass, until nothing moves.
func (w *world) after(d time.Duration) *v1.Pod {
	time.Sleep(d)
	synctest.Wait()
	return w.get()
}

func (w *world) get() *v1.Pod {
	o, err := w.client.Get(context.Background(), pod.Resource, "default", "p")
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		w.t.Fatal(err)
	}
	return o.(*v1.Pod)
}

// starts are the times at which containers of a name were started.
func (w *world) count(call string) int {
	n := 0
	for _, c := range w.rt.Calls() {
		if c == call {
			n++
		}
	}
	return n
}

const oneRunning = `
spec: {containers: [{name: main, image: "img:1", command: [run]}]}
`

func TestRunAndDelete(t *testing.T) {
	bubble(t, oneRunning, func(w *world) {
		t := w.t
		p := w.after(time.Second)
		if p.Status.Phase != v1.PodRunning || p.Status.PodIP == "" || !p.Status.ContainerStatuses[0].Ready {
			t.Errorf("status is %+v", p.Status)
		}
		before := p.ResourceVersion
		if p = w.after(time.Hour); p.ResourceVersion != before {
			t.Errorf("a quiet pod was written: %+v", p.Status)
		}
		if err := w.client.Delete(t.Context(), pod.Resource, "default", "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if p = w.after(time.Second); p != nil {
			t.Errorf("the pod is there: %+v", p.Status)
		}
		if s, c := w.rt.Count(); s+c != 0 {
			t.Errorf("%d sandboxes and %d containers are left", s, c)
		}
		<-w.done // the worker ends by itself
		want := []string{"RunPodSandbox p", "CreateContainer main", "StartContainer main", "StopContainer main", "StopPodSandbox p", "RemovePodSandbox p"}
		if got := w.rt.Calls(); !slices.Equal(got, want) {
			t.Errorf("calls were %q, want %q", got, want)
		}
	})
}

// Removed by force: the pod is gone at once, and what runs has a small grace
// however long the pod's own is.
func TestForced(t *testing.T) {
	bubble(t, `spec: {terminationGracePeriodSeconds: 600, containers: [{name: main, image: "img:1", command: [deaf]}]}`, func(w *world) {
		t := w.t
		w.after(time.Second)
		zero := int64(0)
		if err := w.client.Delete(t.Context(), pod.Resource, "default", "p", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
			t.Fatal(err)
		}
		if p := w.after(time.Second); p != nil {
			t.Errorf("the pod is there: %+v", p.Status)
		}
		w.after(2 * time.Second)
		if s, c := w.rt.Count(); s+c != 0 {
			t.Errorf("%d sandboxes and %d containers are left", s, c)
		}
	})
}

// The waits of a crash loop double from 10 s to 300 s, and end when the
// container ran well for a while.
func TestCrashLoop(t *testing.T) {
	bubble(t, `spec: {containers: [{name: main, image: "img:1", command: [exit, "1", 1s]}]}`, func(w *world) {
		t := w.t
		// Each run takes a second; the first restart comes at once.
		at := time.Duration(0)
		for i, wait := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
			at += time.Second + wait*time.Second
			p := w.after(at - time.Since(w.began) - 500*time.Millisecond)
			if wait > 0 {
				st := p.Status.ContainerStatuses[0].State.Waiting
				if st == nil || st.Reason != pod.CrashLoopBackOff || !strings.HasPrefix(st.Message, "back-off "+(wait*time.Second).String()+" restarting failed container=main pod=p_default(") {
					t.Errorf("before restart %d the state is %+v", i+1, p.Status.ContainerStatuses[0].State)
				}
			}
			p = w.after(700 * time.Millisecond)
			if c := p.Status.ContainerStatuses[0]; c.RestartCount != int32(i+1) || c.State.Running == nil {
				t.Fatalf("after wait %v: %d restarts, state %+v", wait*time.Second, c.RestartCount, c.State)
			}
		}
	})
}

func TestStartError(t *testing.T) {
	bubble(t, `spec: {restartPolicy: Never, containers: [{name: main, image: "img:1", command: [missing]}]}`, func(w *world) {
		t := w.t
		p := w.after(time.Second)
		if st := p.Status.ContainerStatuses[0].State.Terminated; p.Status.Phase != v1.PodFailed || st == nil || st.Reason != "StartError" || st.ExitCode != 128 {
			t.Errorf("status is %+v", p.Status)
		}
		if !slices.Contains(w.events, "main Failed: Error: rpc error: code = Unknown desc = no such command") {
			t.Errorf("events are %q", w.events)
		}
	})
}

// Pulls that fail are tried again after 10 s, 20 s and so on.
func TestPullBackOff(t *testing.T) {
	bubble(t, `spec: {containers: [{name: main, image: "missing:1", command: [run]}]}`, func(w *world) {
		t := w.t
		p := w.after(500 * time.Millisecond)
		if st := p.Status.ContainerStatuses[0].State.Waiting; st == nil || st.Reason != image.ErrImagePull {
			t.Errorf("state is %+v", p.Status.ContainerStatuses[0].State)
		}
		p = w.after(time.Second)
		if st := p.Status.ContainerStatuses[0].State.Waiting; st == nil || st.Reason != image.ImagePullBackOff || !strings.HasPrefix(st.Message, `Back-off pulling image "missing:1"`) {
			t.Errorf("state is %+v", p.Status.ContainerStatuses[0].State)
		}
		w.after(8 * time.Second)
		if n := w.count("PullImage missing:1"); n != 1 {
			t.Errorf("pulled %d times within the back-off", n)
		}
		w.after(2 * time.Second)
		if n := w.count("PullImage missing:1"); n != 2 {
			t.Errorf("pulled %d times after the back-off", n)
		}
	})
}

// A kubelet that restarts goes on with the containers and the back-off that
// are there, and writes nothing about what has not changed.
func TestTakeOver(t *testing.T) {
	bubble(t, `
spec:
  containers:
  - {name: main, image: "img:1", command: [run], readinessProbe: {exec: {command: [ok]}}, startupProbe: {exec: {command: [ok]}}}
  - {name: bad, image: "img:1", command: [exit, "1"]}
`, func(w *world) {
		t := w.t
		before := w.after(5 * time.Second)
		w.stop()
		w.start()
		after := w.after(time.Second)
		if before.ResourceVersion != after.ResourceVersion {
			t.Errorf("status became\n%+v\nfrom\n%+v", after.Status, before.Status)
		}
		if n := w.count("StartContainer main"); n != 1 {
			t.Errorf("main was started %d times", n)
		}
		if n := w.count("StartContainer bad"); n != 2 {
			t.Errorf("bad was started %d times: its back-off was forgotten", n)
		}
	})
}

// TestAddresses: a pod's addresses are told in the order of the node's families,
// whatever the runtime's, and stay when the kubelet is started again.
func TestAddresses(t *testing.T) {
	const four, six = "10.0.0.7", "fd00::7"
	for _, c := range []struct{ node, told, want []string }{
		{[]string{"192.0.2.1"}, []string{four}, []string{four}},
		{[]string{"192.0.2.1", "fd00::1"}, []string{six, four}, []string{four, six}},
		{[]string{"fd00::1", "192.0.2.1"}, []string{four, six}, []string{six, four}},
		{[]string{"fd00::1"}, []string{six, "fd00::8", four}, []string{six, four}},
		{[]string{"192.0.2.1", "fd00::1"}, []string{six}, []string{six}},
	} {
		t.Run(fmt.Sprint(c.node, c.told), func(t *testing.T) {
			prepare := func(w *world) { w.rt.IPs, w.deps.HostIPs = func(int) []string { return c.told }, c.node }
			prepared(t, `
spec:
  containers:
  - {name: main, image: "img:1", command: [run]}
`, prepare, func(w *world) {
				check := func(when string) {
					t.Helper()
					s := w.after(5 * time.Second).Status
					var pod, host []string
					for _, ip := range s.PodIPs {
						pod = append(pod, ip.IP)
					}
					for _, ip := range s.HostIPs {
						host = append(host, ip.IP)
					}
					if !slices.Equal(pod, c.want) || s.PodIP != c.want[0] || !slices.Equal(host, c.node) || s.HostIP != c.node[0] {
						t.Errorf("%s: the pod has %s %v on %s %v, want %v on %v", when, s.PodIP, pod, s.HostIP, host, c.want, c.node)
					}
				}
				check("at first")
				w.stop()
				w.start()
				check("started again")
			})
		})
	}
}

func TestLiveness(t *testing.T) {
	bubble(t, `
spec:
  containers:
  - {name: main, image: "img:1", command: [deaf], livenessProbe: {exec: {command: [alive]}, periodSeconds: 5, failureThreshold: 2, terminationGracePeriodSeconds: 3}}
`, func(w *world) {
		t := w.t
		w.after(time.Minute)
		w.rt.SetExec("main", "alive", 1)
		p := w.after(9 * time.Second) // one failure, maybe two, and not dead yet
		if p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("status is %+v", p.Status)
		}
		p = w.after(9 * time.Second)
		if c := p.Status.ContainerStatuses[0]; c.RestartCount != 1 || c.State.Running == nil || c.LastTerminationState.Terminated.ExitCode != 137 {
			t.Errorf("status is %+v", c)
		}
		if !slices.Contains(w.events, "main Killing: Container main failed liveness probe, will be restarted") {
			t.Errorf("events are %q", w.events)
		}
	})
}

// What the runtime cannot do now is tried again.
func TestSandboxFails(t *testing.T) {
	bubble(t, oneRunning, func(w *world) {
		t := w.t
		p := w.after(time.Second)
		if p.Status.Phase != v1.PodRunning {
			t.Fatalf("status is %+v", p.Status)
		}
		var fail atomic.Bool
		fail.Store(true)
		w.stop()
		var stopped atomic.Int32
		w.rt.Fail = func(call string) error {
			if fail.Load() && call == "RunPodSandbox" {
				return fmt.Errorf("no address")
			}
			if call == "StopPodSandbox" {
				stopped.Add(1)
			}
			return nil
		}
		w.start()
		// The sandbox dies: containers are made anew in another.
		id := p.Status.ContainerStatuses[0].ContainerID
		if _, err := w.rt.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: "sandbox-1"}); err != nil {
			t.Fatal(err)
		}
		stopped.Store(0)
		w.after(time.Minute)
		if stopped.Load() == 0 {
			t.Error("a sandbox that died keeps its address")
		}
		if !slices.ContainsFunc(w.events, func(e string) bool {
			return strings.HasPrefix(e, "FailedCreatePodSandBox: Failed to create pod sandbox: no address")
		}) {
			t.Errorf("events are %q", w.events)
		}
		fail.Store(false)
		p = w.after(time.Minute)
		if c := p.Status.ContainerStatuses[0]; !c.Ready || c.RestartCount != 1 || c.ContainerID == id {
			t.Errorf("status is %+v", c)
		}
	})
}
