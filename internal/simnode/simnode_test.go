package simnode_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

type world struct {
	*testing.T
	client client.Interface
	stop   func()
}

// story runs f in a bubble with count simulated nodes.
func story(t *testing.T, count int, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{Namespaces: []string{"default", corev1.NamespaceNodeLease}})
		w := &world{T: t, client: h.Client("admin")}
		w.start(count)
		defer func() { w.stop() }()
		synctest.Wait()
		f(w)
	})
}

func (w *world) start(count int) {
	s, err := simnode.New(simnode.Options{Client: w.client, Count: count})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	w.stop = func() { cancel(); <-done }
}

// pod creates a pod and waits until its node has done what it does with it, so
// that addresses are given in the order of creation.
func (w *world) pod(name, node string, change ...func(*corev1.Pod)) {
	w.Helper()
	defer synctest.Wait()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: node, RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "c", Image: "app:1"}}}}
	for _, f := range change {
		f(p)
	}
	if _, err := w.client.Create(w.Context(), client.Pods, p); err != nil {
		w.Fatal(err)
	}
}

// pods lists "name phase ip ready".
func (w *world) pods() string {
	w.Helper()
	synctest.Wait()
	pods, _, err := client.List[*corev1.Pod](w.Context(), w.client, client.Pods, "", metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var s []string
	for _, p := range pods {
		line := fmt.Sprintf("%s %s %s", p.Name, cmp.Or(p.Status.Phase, corev1.PodPending), p.Status.PodIP)
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				line += " ready"
			}
		}
		s = append(s, line)
	}
	return strings.Join(s, "; ")
}

func (w *world) expect(what, want string) {
	w.Helper()
	if got := w.pods(); got != want {
		w.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func (w *world) annotateNode(name, value string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, simnode.Silent, value)
	if _, err := w.client.Patch(w.Context(), client.Nodes, "", name, types.MergePatchType, []byte(patch)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) lease(node string) time.Time {
	w.Helper()
	lease, err := client.Get[*coordinationv1.Lease](w.Context(), w.client, client.Leases, corev1.NamespaceNodeLease, node)
	if err != nil {
		w.Fatal(err)
	}
	return lease.Spec.RenewTime.Time
}

func TestPodsOfSimulatedNodes(t *testing.T) {
	story(t, 2, func(w *world) {
		w.pod("a", "sim-1")
		w.pod("job", "sim-0", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Annotations = map[string]string{simnode.ExitAfter: "5s"}
		})
		w.pod("elsewhere", "real")
		w.pod("host", "sim-1", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
		w.expect("bound", "a Running 198.19.0.2 ready; elsewhere Pending ; host Running 198.18.0.2 ready; job Running 198.19.0.3 ready")
		time.Sleep(6 * time.Second)
		w.expect("the job has ended", "a Running 198.19.0.2 ready; elsewhere Pending ; host Running 198.18.0.2 ready; job Succeeded 198.19.0.3")
		for _, name := range []string{"a", "host"} {
			if err := w.client.Delete(w.Context(), client.Pods, "default", name, metav1.DeleteOptions{}); err != nil {
				w.Fatal(err)
			}
		}
		w.expect("deleted", "elsewhere Pending ; job Succeeded 198.19.0.3")
		w.stop()
		w.pod("b", "sim-0")
		w.expect("nobody there", "b Pending ; elsewhere Pending ; job Succeeded 198.19.0.3")
		w.start(2)
		w.expect("taken over", "b Running 198.19.0.2 ready; elsewhere Pending ; job Succeeded 198.19.0.3")
	})
}

// Leases are renewed every 10 s, at times spread over the nodes; the status is
// posted every 5 min.
func TestHeartbeats(t *testing.T) {
	story(t, 10, func(w *world) {
		time.Sleep(time.Minute)
		synctest.Wait()
		at := map[time.Time]bool{}
		for i := range 10 {
			renewed := w.lease(fmt.Sprint("sim-", i))
			at[renewed] = true
			if age := time.Since(renewed); age > 10*time.Second {
				w.Errorf("sim-%d: renewed %s ago", i, age)
			}
		}
		if len(at) != 10 {
			w.Errorf("the leases of 10 nodes are renewed at %d times", len(at))
		}
		count := func() int {
			node, err := client.Get[*corev1.Node](w.Context(), w.client, client.Nodes, "", "sim-3")
			if err != nil {
				w.Fatal(err)
			}
			if node.Status.Allocatable.Pods().Value() != 110 {
				w.Errorf("status %+v", node.Status)
			}
			return int(node.Status.Conditions[0].LastHeartbeatTime.Unix())
		}
		first := count()
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if again := count(); again != first {
			w.Errorf("posted after %d s", again-first)
		}
		time.Sleep(70 * time.Second)
		synctest.Wait()
		if again := count(); again < first+300 {
			w.Errorf("not posted for 5 min")
		}
	})
}

func TestSilentNode(t *testing.T) {
	story(t, 2, func(w *world) {
		w.pod("a", "sim-0")
		w.expect("bound", "a Running 198.19.0.2 ready")
		w.annotateNode("sim-0", `"true"`)
		synctest.Wait()
		last := w.lease("sim-0")
		w.pod("b", "sim-0")
		if err := w.client.Delete(w.Context(), client.Pods, "default", "a", metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Hour)
		w.expect("silent", "a Running 198.19.0.2 ready; b Pending ")
		if renewed := w.lease("sim-0"); renewed.After(last.Add(10 * time.Second)) {
			w.Errorf("renewed after %s", renewed.Sub(last))
		}
		w.annotateNode("sim-0", "null")
		w.expect("back", "b Running 198.19.0.3 ready")
		if age := time.Since(w.lease("sim-0")); age > time.Second {
			w.Errorf("renewed %s ago", age)
		}
	})
}

// A quiet cluster sees nothing but leases and node statuses.
func TestQuiet(t *testing.T) {
	story(t, 3, func(w *world) {
		for i := range 30 {
			w.pod(fmt.Sprint("p", i), fmt.Sprint("sim-", i%3))
		}
		synctest.Wait()
		revision := func() string {
			_, rv, err := w.client.List(w.Context(), client.Pods, "", metav1.ListOptions{})
			if err != nil {
				w.Fatal(err)
			}
			return rv
		}
		pods, _, _ := client.List[*corev1.Pod](w.Context(), w.client, client.Pods, "", metav1.ListOptions{})
		latest := map[string]string{}
		for _, p := range pods {
			latest[p.Name] = p.ResourceVersion
		}
		before := revision()
		time.Sleep(time.Hour)
		synctest.Wait()
		pods, _, _ = client.List[*corev1.Pod](w.Context(), w.client, client.Pods, "", metav1.ListOptions{})
		for _, p := range pods {
			if p.ResourceVersion != latest[p.Name] {
				w.Errorf("%s was written", p.Name)
			}
		}
		if before == revision() {
			w.Error("no heartbeat at all")
		}
	})
}
