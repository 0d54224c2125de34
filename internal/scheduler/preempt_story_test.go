package scheduler_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
)

func urgency(v int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &v } }

func grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func (w *world) get(name string) *corev1.Pod {
	w.Helper()
	p, err := client.Get[*corev1.Pod](w.Context(), w.client, client.Pods, "default", name)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// What is less urgent leaves; until it is gone the room is kept for the pod
// that needs it.
func TestMakesRoom(t *testing.T) {
	story(t, nil, func(w *world) {
		w.node("n", "4")
		w.pod("victim", "3", urgency(1), grace(30))
		w.expect("first", "victim=n")
		w.pod("urgent", "2", urgency(9))
		w.expect("the victim takes its time", "urgent= victim=n")
		if p := w.get("urgent"); p.Status.NominatedNodeName != "n" {
			w.Errorf("nominated for %q", p.Status.NominatedNodeName)
		}
		v := w.get("victim")
		told := false
		for _, c := range v.Status.Conditions {
			told = told || c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "PreemptionByScheduler"
		}
		if v.DeletionTimestamp == nil || !told {
			w.Errorf("the victim is %+v", v.Status)
		}
		w.pod("late", "2", urgency(5))
		w.pod("small", "1", urgency(5), func(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever) })
		w.expect("still full", "late= small= urgent= victim=n")
		w.delete(client.Pods, "default", "victim")
		w.expect("the room was kept, and the rest is taken in order", "late=n small= urgent=n")
		time.Sleep(time.Hour)
		w.expect("an hour later", "late=n small= urgent=n")
	})
}

// Pods that are alike, for each of which room is made on a node of its own, get
// it in whatever order the victims leave, at once where only room is missing.
func TestMakesRoomForMany(t *testing.T) {
	const n = 6
	apart := func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "apart"}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}, TopologyKey: corev1.LabelHostname}}}}
	}
	for _, test := range []struct {
		name string
		like func(*corev1.Pod)
		wait time.Duration
	}{{"room", func(*corev1.Pod) {}, 0}, {"rules", apart, 15 * time.Second}} {
		for _, from := range []int{0, 2, n - 1} {
			t.Run(fmt.Sprint(test.name, " from ", from), func(t *testing.T) {
				story(t, nil, func(w *world) {
					for i := range n {
						w.node(fmt.Sprint("n", i), "4", func(o *corev1.Node) { o.Labels = map[string]string{corev1.LabelHostname: o.Name} })
						w.pod(fmt.Sprint("victim-", i), "3", urgency(1), grace(600), func(p *corev1.Pod) { p.Spec.NodeName = fmt.Sprint("n", i) })
					}
					synctest.Wait()
					for i := range n {
						w.pod(fmt.Sprint("urgent-", i), "3", urgency(9), test.like)
						synctest.Wait()
					}
					time.Sleep(30 * time.Second)
					on := map[string]string{}
					for i := range n {
						name := fmt.Sprint("urgent-", i)
						on[w.get(name).Status.NominatedNodeName] = name
					}
					if len(on) != n {
						w.Fatalf("nominated: %v", on)
					}
					for i := range n {
						node := fmt.Sprint("n", (n+from-i)%n)
						w.delete(client.Pods, "default", "victim-"+node[1:])
						time.Sleep(test.wait)
						synctest.Wait()
						if got := w.get(on[node]).Spec.NodeName; got != node {
							w.Errorf("victim %d of %s left: %s is on %q", i, node, on[node], got)
						}
					}
				})
			})
		}
	}
}

// A node on which no budget breaks is taken, though its pods are more urgent.
func TestMakesRoomByBudgets(t *testing.T) {
	story(t, nil, func(w *world) {
		one := intstr.FromInt32(1)
		b, err := client.Create(w.Context(), w.client, client.PodDisruptionBudgets, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}})
		if err != nil {
			w.Fatal(err)
		}
		b = b.DeepCopy()
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
		if _, err := w.client.Update(w.Context(), client.PodDisruptionBudgets, b, "status"); err != nil {
			w.Fatal(err)
		}
		w.node("a", "4")
		w.pod("guarded", "4", urgency(1), grace(0), func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
		synctest.Wait()
		w.node("b", "4")
		w.pod("other", "4", urgency(5), grace(0))
		w.expect("full", "guarded=a other=b")
		w.pod("urgent", "4", urgency(9))
		w.expect("by the budget", "guarded=a urgent=b")
		if got := w.events[len(w.events)-2:]; got[0] != fmt.Sprintf("other Preempted Preempted by pod %s on node b", w.get("urgent").UID) && got[1] != got[0] {
			w.Errorf("events %q", w.events)
		}
	})
}

// Some schedulers in one, by name: one packs, one disables a plugin, one has a
// plugin of its own.
func TestProfiles(t *testing.T) {
	story(t, nil, func(w *world) {
		w.stop()
		w.startWith(scheduler.Options{Client: w.client, Profiles: []scheduler.Profile{
			{SchedulerName: "spread"},
			{SchedulerName: "pack", Strategy: "MostAllocated", Weights: map[string]int64{"NodeResourcesBalancedAllocation": 0}},
			{SchedulerName: "blind", Disabled: []string{"NodeUnschedulable"}},
			{SchedulerName: "licensed", Plugins: []scheduler.Plugin{licence{}}},
		}})
		by := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.SchedulerName = name } }
		w.node("a", "10")
		w.node("b", "10", func(n *corev1.Node) { n.Labels = map[string]string{"licensed": "yes"} })
		w.pod("first", "1", func(p *corev1.Pod) { p.Spec.NodeName = "a" })
		w.pod("pack-1", "1", by("pack"))
		synctest.Wait()
		w.pod("pack-2", "1", by("pack"))
		w.expect("packed", "first=a pack-1=a pack-2=a")
		w.pod("spread-1", "1", by("spread"))
		w.pod("unknown", "1")
		w.expect("spread", "first=a pack-1=a pack-2=a spread-1=b unknown=")
		w.pod("licensed", "10", by("licensed"))
		w.expect("b only, and there is no room", "first=a licensed= pack-1=a pack-2=a spread-1=b unknown=")
		if c := w.scheduled("licensed"); c.Message != "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had no licence. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling." {
			w.Errorf("got %s", c.Message)
		}
		for _, name := range []string{"a", "b"} {
			if _, err := w.client.Patch(w.Context(), client.Nodes, "", name, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)); err != nil {
				w.Fatal(err)
			}
		}
		synctest.Wait()
		w.pod("blind", "1", by("blind"))
		w.pod("sees", "1", by("spread"))
		synctest.Wait()
		if w.get("blind").Spec.NodeName == "" || w.get("sees").Spec.NodeName != "" {
			w.Errorf("cordoned: %s", w.pods())
		}
	})
}

// licence is a plugin of one's own.
type licence struct{}

func (licence) Name() string { return "Licence" }

func (licence) Filter(_ *corev1.Pod, node scheduler.Node) string {
	if node.Object().Labels["licensed"] == "" {
		return "node(s) had no licence"
	}
	return ""
}

func TestProfilesThatAreWrong(t *testing.T) {
	for _, profiles := range [][]scheduler.Profile{
		{{}, {}},
		{{Strategy: "Random"}},
		{{Strategy: "RequestedToCapacityRatio"}},
		{{Plugins: []scheduler.Plugin{named("NodePorts")}}},
		{{Plugins: []scheduler.Plugin{named("Idle")}}},
	} {
		if _, err := scheduler.New(scheduler.Options{Profiles: profiles}); err == nil {
			t.Errorf("%+v is taken", profiles)
		}
	}
}

type named string

func (n named) Name() string { return string(n) }

// Why a pod waits is told node by node.
func TestExplain(t *testing.T) {
	story(t, nil, func(w *world) {
		w.stop()
		s := w.start(w.client)
		w.node("small", "1")
		w.node("tainted", "9", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
		})
		w.pod("p", "2")
		synctest.Wait()
		d, err := s.Explain(w.Context(), "default", "p")
		if err != nil || d == nil {
			w.Fatal(d, err)
		}
		if got := fmt.Sprint(d.Refused["small"], d.Refused["tainted"], d.Fits); got != "[Insufficient cpu] [node(s) had untolerated taint {k: v}] []" || len(d.Helps) == 0 {
			w.Errorf("got %s, %v", got, d.Helps)
		}
		if d, err := s.Explain(w.Context(), "default", "nobody"); d != nil || err != nil {
			w.Errorf("nobody: %v, %v", d, err)
		}
	})
}
