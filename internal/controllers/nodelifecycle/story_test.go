package nodelifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/nodelifecycle"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

// world is an API server with simulated nodes and the loop, in a bubble.
type world struct {
	*testing.T
	client client.Interface
	loop   *nodelifecycle.Controller
	start  time.Time

	mu     sync.Mutex
	events []string // guarded by mu
}

func (w *world) Event(obj client.Object, _, reason, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%s %s: %s", obj.GetName(), reason, fmt.Sprintf(format, args...)))
}

func story(t *testing.T, nodes int, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{Namespaces: []string{"default", corev1.NamespaceNodeLease}})
		w := &world{T: t, client: h.Client("admin")}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		sim, err := simnode.New(simnode.Options{Client: h.Client("nodes"), Count: nodes})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { sim.Run(ctx) })
		c := nodelifecycle.New(controllers.Options{Client: h.Client("loop"), Events: w})
		w.loop = c
		wg.Go(func() { c.Run(ctx) })
		synctest.Wait()
		w.start = time.Now()
		f(w)
	})
}

func (w *world) pod(name, node string, tolerations ...corev1.Toleration) {
	w.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: node, Tolerations: tolerations, Containers: []corev1.Container{{Name: "c", Image: "app"}}}}
	if _, err := w.client.Create(w.Context(), client.Pods, p); err != nil {
		w.Fatal(err)
	}
}

func (w *world) silence(node string, silent bool) {
	w.Helper()
	value := "null"
	if silent {
		value = `"true"`
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, simnode.Silent, value)
	if _, err := w.client.Patch(w.Context(), client.Nodes, "", node, types.MergePatchType, []byte(patch)); err != nil {
		w.Fatal(err)
	}
}

// node describes a node: "Unknown NodeStatusUnknown; key:Effect ...".
func (w *world) node(name string) string {
	w.Helper()
	synctest.Wait()
	node, err := client.Get[*corev1.Node](w.Context(), w.client, client.Nodes, "", name)
	if err != nil {
		w.Fatal(err)
	}
	var words []string
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			words = append(words, string(c.Status), c.Reason)
		}
	}
	for _, t := range node.Spec.Taints {
		words = append(words, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	return strings.Join(words, " ")
}

// pods lists the pods that are not to go: "name" or "name(not ready)".
func (w *world) pods() string {
	w.Helper()
	synctest.Wait()
	pods, _, err := client.List[*corev1.Pod](w.Context(), w.client, client.Pods, "", metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var words []string
	for _, p := range pods {
		word := p.Name
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
				word += "(not ready)"
			}
		}
		if p.DeletionTimestamp == nil {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

func (w *world) expect(what, got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("%s, after %s: got %q, want %q", what, time.Since(w.start), got, want)
	}
}

const (
	well  = "True KubeletReady"
	given = "Unknown NodeStatusUnknown unreachable:NoSchedule unreachable:NoExecute"
)

// A simulated node falls silent: NotReady, tainted, its pods leave; it comes
// back clean.
func TestSilentNode(t *testing.T) {
	story(t, 3, func(w *world) {
		w.pod("stays", "sim-0")
		w.pod("patient", "sim-1", tolerate(300))
		w.pod("forever", "sim-1", tolerate())
		w.pod("at-once", "sim-1")
		w.expect("at first", w.pods(), "at-once forever patient stays")
		time.Sleep(time.Hour)
		w.expect("an hour later", w.node("sim-1"), well)

		// Within 10 s it renewed its lease last; 40 s after that it is given up.
		w.silence("sim-1", true)
		w.start = time.Now()
		time.Sleep(30*time.Second - time.Millisecond)
		w.expect("patience", w.node("sim-1"), well)
		time.Sleep(10*time.Second + 2*time.Millisecond)
		w.expect("given up", w.node("sim-1"), given)
		w.expect("another", w.node("sim-0"), well)
		w.expect("evicted at once", w.pods(), "forever(not ready) patient(not ready) stays")
		time.Sleep(288 * time.Second)
		w.expect("patience of a pod", w.pods(), "forever(not ready) patient(not ready) stays")
		time.Sleep(13 * time.Second)
		w.expect("evicted in time", w.pods(), "forever(not ready) stays")

		w.silence("sim-1", false)
		time.Sleep(time.Second) // a status that meets another write is written again
		w.expect("back", w.node("sim-1"), well)
		w.expect("ready again", w.pods(), "forever stays")
		want := "sim-1 NodeNotReady: Node sim-1 status is now: NodeNotReady\n" +
			"at-once TaintManagerEviction: Marking for deletion Pod default/at-once\n" +
			"patient TaintManagerEviction: Marking for deletion Pod default/patient"
		var got []string
		for _, e := range w.events {
			if !strings.Contains(e, "Node is not ready") {
				got = append(got, e)
			}
		}
		w.expect("events", strings.Join(got, "\n"), want)
	})
}

// Who is gone is waited for no more.
func TestGapsOfWhatIsGone(t *testing.T) {
	story(t, 3, func(w *world) {
		gaps := func() string {
			synctest.Wait()
			var out []string
			for _, g := range w.loop.Gaps() {
				out = append(out, g.Key.Name)
			}
			slices.Sort(out)
			return strings.Join(out, " ")
		}
		remove := func(res client.Resource, namespace, name string) {
			w.Helper()
			if err := w.client.Delete(w.Context(), res, namespace, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				w.Fatal(err)
			}
		}
		w.pod("first", "sim-1", tolerate(300))
		w.pod("second", "sim-1", tolerate(300))
		w.expect("at first", gaps(), "")
		w.silence("sim-1", true)
		time.Sleep(time.Minute)
		w.expect("silent", gaps(), "first second sim-1")
		remove(client.Pods, "default", "first")
		w.expect("without a pod", gaps(), "second sim-1")
		remove(client.Nodes, "", "sim-1")
		w.expect("without the node", gaps(), "")
	})
}

// Silent nodes are given up one by one; when most are silent, or all, it is
// more likely we who are cut off.
func TestManySilentNodes(t *testing.T) {
	story(t, 10, func(w *world) {
		evicting := func() (n int) {
			for i := range 10 {
				if strings.Contains(w.node(fmt.Sprint("sim-", i)), ":NoExecute") {
					n++
				}
			}
			return n
		}
		count := func(what string, want int) {
			w.Helper()
			if got := evicting(); got != want {
				w.Errorf("%s, after %s: %d nodes are given up, want %d", what, time.Since(w.start), got, want)
			}
		}
		for i := range 3 {
			w.silence(fmt.Sprint("sim-", i), true)
		}
		time.Sleep(40 * time.Second)
		count("the first", 1)
		time.Sleep(10 * time.Second)
		count("the second", 2)
		time.Sleep(10 * time.Second)
		count("the third", 3)
		for i := range 7 {
			w.silence(fmt.Sprint("sim-", i), true)
		}
		time.Sleep(time.Hour)
		// One more had its turn before most were known to be silent.
		count("most of a small cluster", 4)
		for i := range 10 {
			w.silence(fmt.Sprint("sim-", i), true)
		}
		time.Sleep(time.Hour)
		count("all", 0)
		for i := range 10 {
			w.expect("all", w.node(fmt.Sprint("sim-", i)), "Unknown NodeStatusUnknown unreachable:NoSchedule")
		}
		for i := range 10 {
			w.silence(fmt.Sprint("sim-", i), false)
		}
		time.Sleep(time.Second) // a status that meets another write is written again
		for i := range 10 {
			w.expect("all are back", w.node(fmt.Sprint("sim-", i)), well)
		}
	})
}

func TestCordon(t *testing.T) {
	story(t, 1, func(w *world) {
		for _, patch := range []struct{ spec, want string }{
			{`{"spec":{"unschedulable":true}}`, well + " unschedulable:NoSchedule"},
			{`{"spec":{"unschedulable":null}}`, well},
		} {
			if _, err := w.client.Patch(w.Context(), client.Nodes, "", "sim-0", types.MergePatchType, []byte(patch.spec)); err != nil {
				w.Fatal(err)
			}
			w.expect(patch.spec, w.node("sim-0"), patch.want)
		}
	})
}

// A node that is made with the taint of one that is not ready keeps it until
// its kubelet says that it is, or has said nothing for a minute.
func TestMadeWithTaint(t *testing.T) {
	story(t, 2, func(w *world) {
		for _, name := range []string{"speaks", "silent"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}}}}
			if _, err := w.client.Create(w.Context(), client.Nodes, node); err != nil {
				w.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		for _, name := range []string{"speaks", "silent"} {
			w.expect(name+" has not spoken", w.node(name), "not-ready:NoExecute")
		}
		status := `{"status":{"conditions":[{"type":"Ready","status":"%s","reason":"KubeletReady","lastHeartbeatTime":"%s"}]}}`
		for _, step := range []struct{ ready, want string }{
			{"False", "False KubeletReady not-ready:NoExecute not-ready:NoSchedule"},
			{"True", "True KubeletReady"},
		} {
			patch := fmt.Appendf(nil, status, step.ready, time.Now().Format(time.RFC3339))
			if _, err := w.client.Patch(w.Context(), client.Nodes, "", "speaks", types.StrategicMergePatchType, patch, "status"); err != nil {
				w.Fatal(err)
			}
			w.expect("it says "+step.ready, w.node("speaks"), step.want)
		}
		time.Sleep(31 * time.Second)
		w.expect("it never spoke", w.node("silent"), "Unknown NodeStatusNeverUpdated unreachable:NoSchedule unreachable:NoExecute")
	})
}
