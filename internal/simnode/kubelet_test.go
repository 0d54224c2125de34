package simnode_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/nodestats"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

func (w *world) sample(k *simnode.Kubelets, node string) *nodestats.Sample {
	w.Helper()
	n, err := client.Get[*corev1.Node](w.Context(), w.client, client.Nodes, "", node)
	if err != nil {
		w.Fatal(err)
	}
	answer := httptest.NewRecorder()
	k.Of(n).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics/resource", nil))
	s, err := nodestats.Read(answer.Body.Bytes(), time.Now())
	if err != nil {
		w.Fatalf("%v: %s", err, answer.Body)
	}
	return s
}

// used is what a pod used between two samples, in cores, container by container.
func used(before, after *nodestats.Sample, pod string) map[string]string {
	out := map[string]string{}
	key := types.NamespacedName{Namespace: "default", Name: pod}
	for name, p := range after.Pods[key] {
		had := before.Pods[key][name]
		out[name] = fmt.Sprintf("%.3f %d", (p.CPU-had.CPU)/p.At.Sub(had.At).Seconds(), p.Memory)
	}
	return out
}

func TestUseOfPods(t *testing.T) {
	story(t, 2, func(w *world) {
		annotate := func(pairs ...string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Annotations = map[string]string{}
				for i := 0; i < len(pairs); i += 2 {
					p.Annotations[pairs[i]] = pairs[i+1]
				}
			}
		}
		two := func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "app", Image: "i"}, {Name: "proxy", Image: "i"}}
		}
		owned := func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u", Controller: new(true)}}
		}
		w.pod("plain", "sim-0")
		w.pod("even", "sim-0", two, annotate(simnode.CPU, "500m", simnode.Memory, "2Ki"))
		w.pod("named", "sim-0", two, annotate(simnode.CPU, "app=200m, proxy=50m", simnode.Memory, "proxy=1Ki"))
		w.pod("wrong", "sim-0", annotate(simnode.CPU, "much", simnode.Memory, "-5"))
		w.pod("web-1", "sim-0", owned, annotate(simnode.Load, "2"))
		k := simnode.NewKubelets(w.client.View(client.Pods, client.ViewOptions{}))
		w.expect("running", "even Running 198.19.0.3 ready; named Running 198.19.0.4 ready; plain Running 198.19.0.2 ready; web-1 Running 198.19.0.6 ready; wrong Running 198.19.0.5 ready")
		first := w.sample(k, "sim-0")
		time.Sleep(10 * time.Second)
		second := w.sample(k, "sim-0")
		for pod, want := range map[string]map[string]string{
			"plain": {"c": "0.000 0"}, "even": {"app": "0.250 1024", "proxy": "0.250 1024"},
			"named": {"app": "0.200 0", "proxy": "0.050 1024"}, "wrong": {"c": "0.000 0"}, "web-1": {"c": "2.000 0"},
		} {
			if got := used(first, second, pod); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s uses %v, want %v", pod, got, want)
			}
		}
		if cores := (second.Node.CPU - first.Node.CPU) / 10; cores < 2.749 || cores > 2.751 {
			t.Errorf("the node uses %f cores", cores)
		}
		// A second pod takes half of the load.
		w.pod("web-2", "sim-1", owned, annotate(simnode.Load, "2"))
		third := w.sample(k, "sim-0")
		time.Sleep(10 * time.Second)
		fourth := w.sample(k, "sim-0")
		if got := used(third, fourth, "web-1")["c"]; got != "1.000 0" {
			t.Errorf("with a second one, web-1 uses %s", got)
		}
		// What changed is felt in the next measurement, and time that was used
		// is never taken back.
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:"100m"}}}`, simnode.Load, simnode.CPU)
		if _, err := w.client.Patch(w.Context(), client.Pods, "default", "web-1", types.MergePatchType, []byte(patch)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if got := used(fourth, w.sample(k, "sim-0"), "web-1")["c"]; got != "0.100 0" {
			t.Errorf("after the change web-1 uses %s", got)
		}
	})
}

func TestKubeletOf(t *testing.T) {
	story(t, 1, func(w *world) {
		k := simnode.NewKubelets(w.client.View(client.Pods, client.ViewOptions{}))
		if k.Of(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}) != nil {
			t.Error("it answers for a real node")
		}
		w.annotateNode("sim-0", `"true"`)
		n, err := client.Get[*corev1.Node](t.Context(), w.client, client.Nodes, "", "sim-0")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/healthz", "/stats/summary"} {
			answer := httptest.NewRecorder()
			k.Of(n).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			if answer.Code != http.StatusServiceUnavailable {
				t.Errorf("a silent node answers %d at %s", answer.Code, path)
			}
		}
	})
}
