package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// world is an API server with a scheduler, in a bubble.
type world struct {
	*testing.T
	client client.Interface
	stop   func()
	gpus   string // of each node that is made from now on; "" is none

	mu     sync.Mutex
	events []string // "name Reason message"; guarded by mu
}

func (w *world) Event(obj client.Object, _, reason, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, obj.GetName()+" "+reason+" "+fmt.Sprintf(format, args...))
}

// story runs f in a bubble; wrap may put faults in front of the server.
func story(t *testing.T, wrap func(client.Interface) client.Interface, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		w := &world{T: t, client: h.Client("admin")}
		c := h.Client("system:kube-scheduler")
		if wrap != nil {
			c = wrap(c)
		}
		w.start(c)
		defer func() { w.stop() }()
		f(w)
	})
}

// start runs a scheduler until stop.
func (w *world) start(c client.Interface) *scheduler.Scheduler {
	return w.startWith(scheduler.Options{Client: c})
}

func (w *world) startWith(opts scheduler.Options) *scheduler.Scheduler {
	if opts.Seed = 1; opts.Recorder == nil {
		opts.Recorder = w
	}
	s := newScheduler(opts)
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	w.stop = func() { cancel(); <-done }
	return s
}

func (w *world) node(name, cpu string, change ...func(*corev1.Node)) {
	w.Helper()
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	if w.gpus != "" {
		amounts["example.com/gpu"] = resource.MustParse(w.gpus)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: amounts, Allocatable: amounts}}
	for _, f := range change {
		f(n)
	}
	made, err := client.Create(w.Context(), w.client, client.Nodes, n)
	if err != nil {
		w.Fatal(err)
	}
	n = made.DeepCopy()
	n.Status.Capacity, n.Status.Allocatable = amounts, amounts
	if _, err := w.client.Update(w.Context(), client.Nodes, n, "status"); err != nil {
		w.Fatal(err)
	}
	synctest.Wait() // views of pods and of nodes are told apart from each other
}

func (w *world) pod(name, cpu string, change ...func(*corev1.Pod)) {
	w.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c", Image: "app",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}}}
	for _, f := range change {
		f(p)
	}
	if _, err := w.client.Create(w.Context(), client.Pods, p); err != nil {
		w.Fatal(err)
	}
}

func (w *world) delete(res client.Resource, namespace, name string) {
	w.Helper()
	if err := w.client.Delete(w.Context(), res, namespace, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		w.Fatal(err)
	}
}

// pods lists where the pods are: "a=node1 b=-".
func (w *world) pods() string {
	pods, _, err := client.List[*corev1.Pod](w.Context(), w.client, client.Pods, "default", metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var s []string
	for _, p := range pods {
		s = append(s, p.Name+"="+strings.TrimPrefix(strings.Join([]string{"", p.Spec.NodeName}, ""), " "))
	}
	return strings.Join(s, " ")
}

func (w *world) expect(what, want string) {
	w.Helper()
	synctest.Wait()
	if got := w.pods(); got != want {
		w.Errorf("%s: %s, want %s", what, got, want)
	}
}

func (w *world) scheduled(name string) corev1.PodCondition {
	w.Helper()
	p, err := client.Get[*corev1.Pod](w.Context(), w.client, client.Pods, "default", name)
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c
		}
	}
	return corev1.PodCondition{}
}

func TestPlacesPods(t *testing.T) {
	story(t, nil, func(w *world) {
		w.pod("early", "1") // before there is a node
		synctest.Wait()
		if c := w.scheduled("early"); c.Status != corev1.ConditionFalse || c.Reason != "Unschedulable" || c.Message != "no nodes available to schedule pods" {
			w.Errorf("without nodes: %+v", c)
		}
		w.node("n", "2")
		w.expect("a node came", "early=n")
		if c := w.scheduled("early"); c.Status != corev1.ConditionTrue {
			w.Errorf("bound: %+v", c)
		}
		w.pod("other", "1", func(p *corev1.Pod) { p.Spec.SchedulerName = "somebody-else" })
		w.pod("gated", "1", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/hold"}} })
		w.expect("another scheduler's, gated", "early=n gated= other=")
		_, err := w.client.Patch(w.Context(), client.Pods, "default", "gated", types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`))
		if err != nil {
			w.Fatal(err)
		}
		w.expect("the gate is gone", "early=n gated=n other=")
	})
}

func TestWaitsForRoom(t *testing.T) {
	story(t, nil, func(w *world) {
		w.node("n", "2")
		w.pod("a", "2")
		synctest.Wait()
		w.pod("b", "2")
		w.pod("c", "2")
		w.expect("full", "a=n b= c=")
		if c := w.scheduled("b"); c.Message != "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod." {
			w.Errorf("condition %+v", c)
		}
		w.delete(client.Pods, "default", "a")
		w.expect("at once when a is gone", "b=n c=")
		if _, err := w.client.Patch(w.Context(), client.Pods, "default", "b", types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), "status"); err != nil {
			w.Fatal(err)
		}
		w.expect("at once when b has ended", "b=n c=n")
		want := []string{
			"a Scheduled Successfully assigned default/a to n",
			"b FailedScheduling 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
			"c FailedScheduling 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
			"b Scheduled Successfully assigned default/b to n",
			"c Scheduled Successfully assigned default/c to n",
		}
		if got := strings.Join(w.events, "\n"); got != strings.Join(want, "\n") {
			w.Errorf("events:\n%s", got)
		}
	})
}

func TestPriority(t *testing.T) {
	story(t, nil, func(w *world) {
		w.pod("low", "1")
		w.pod("high", "1", func(p *corev1.Pod) { p.Spec.Priority = new(int32(5)) })
		synctest.Wait()
		w.node("n", "1")
		w.expect("the higher first", "high=n low=")
	})
}

// 110 pods wait; a node has room for some. Nothing is overcommitted, and a
// quiet cluster is quiet.
func TestFillsAndIsQuiet(t *testing.T) {
	story(t, nil, func(w *world) {
		for i := range 110 {
			w.pod(fmt.Sprintf("p%03d", i), "16")
		}
		for i := range 3 {
			w.node(fmt.Sprint("n", i), "32")
		}
		synctest.Wait()
		if got := strings.Count(w.pods(), "=n"); got != 6 {
			w.Errorf("%d are placed, want 6", got)
		}
		revision := func() string {
			_, rv, err := w.client.List(w.Context(), client.Pods, "", metav1.ListOptions{})
			if err != nil {
				w.Fatal(err)
			}
			return rv
		}
		time.Sleep(10 * time.Minute) // those refused before the last node came say so
		before := revision()
		time.Sleep(time.Hour)
		synctest.Wait()
		if after := revision(); after != before {
			w.Errorf("something was written in a quiet cluster: revision %s, then %s", before, after)
		}
	})
}

// A second scheduler, or one that starts anew, knows what is placed already.
func TestTakesOver(t *testing.T) {
	story(t, nil, func(w *world) {
		w.node("n", "2")
		w.pod("a", "2")
		w.expect("first", "a=n")
		w.stop()
		w.pod("b", "1")
		w.expect("nobody there", "a=n b=")
		w.start(w.client)
		w.expect("no room", "a=n b=")
		w.delete(client.Pods, "default", "a")
		w.expect("room", "b=n")
	})
}

func TestTwoAtOnce(t *testing.T) {
	story(t, nil, func(w *world) {
		first := w.stop
		w.start(w.client)
		second := w.stop
		w.stop = func() { first(); second() }
		for i := range 4 {
			w.node(fmt.Sprint("n", i), "100")
		}
		for i := range 40 {
			w.pod(fmt.Sprintf("p%02d", i), "1")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Count(w.pods(), "=n"); got != 40 {
			w.Errorf("%d are placed, want 40: %s", got, w.pods())
		}
	})
}

// Writes that fail and events that are lost, doubled and late: in the end all
// is placed, and never more than fits.
func TestFaults(t *testing.T) {
	for seed := range uint64(10) {
		var faulty *client.Faulty
		story(t, func(c client.Interface) client.Interface {
			faulty = client.WithFaults(c, client.Faults{Seed: seed, Refuse: 0.2, Conflict: 0.1, LoseAnswer: 0.2,
				LoseEvent: 0.2, DoubleEvent: 0.2, LateEvent: 0.2, Lag: 300 * time.Millisecond})
			return faulty
		}, func(w *world) {
			for i := range 3 {
				w.node(fmt.Sprint("n", i), "10")
			}
			for i := range 36 {
				w.pod(fmt.Sprintf("p%02d", i), "1")
			}
			time.Sleep(20 * time.Second)
			for i := range 10 {
				w.delete(client.Pods, "default", fmt.Sprintf("p%02d", i))
			}
			time.Sleep(20 * time.Second)
			faulty.Calm()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			pods := w.pods()
			if got := strings.Count(pods, "=n"); got != 26 {
				w.Errorf("seed %d: %d are placed, want 26: %s", seed, got, pods)
			}
			for i := range 3 {
				if got := strings.Count(pods, fmt.Sprint("=n", i)); got > 10 {
					w.Errorf("seed %d: %d pods on n%d", seed, got, i)
				}
			}
			w.stop()
			faulty.Close()
			w.stop = func() {}
		})
	}
}
