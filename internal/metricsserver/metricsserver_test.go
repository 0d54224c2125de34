package metricsserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// world has two nodes, whose containers each use half a core from the start of
// the bubble on, and 1 MiB.
type world struct {
	*testing.T
	client client.Interface
	server *Server
	start  time.Time

	mu      sync.Mutex
	asked   map[string]int             // guarded by mu: scrapes by node
	dead    map[string]bool            // guarded by mu
	running map[string]map[string]bool // guarded by mu: "namespace/pod/container" by node
}

func story(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{Namespaces: []string{"default", "other"}})
		w := &world{T: t, client: h.Client("admin"), start: time.Now(), asked: map[string]int{}, dead: map[string]bool{}, running: map[string]map[string]bool{}}
		w.server = New(Config{Nodes: w.client.View(client.Nodes, client.ViewOptions{}), Pods: w.client.View(client.Pods, client.ViewOptions{}), Scrape: w.scrape})
		for _, name := range []string{"n1", "n2"} {
			if _, err := w.client.Create(t.Context(), client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": name}}}); err != nil {
				t.Fatal(err)
			}
		}
		f(w)
	})
}

func (w *world) scrape(_ context.Context, n *corev1.Node) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[n.Name]++
	if w.dead[n.Name] {
		return nil, errors.New("no route to host")
	}
	now := time.Now()
	used := now.Sub(w.start).Seconds() / 2
	var b strings.Builder
	line := func(name, labels string, value float64) {
		fmt.Fprintf(&b, "%s%s %g %d\n", name, labels, value, now.UnixMilli())
	}
	line("node_cpu_usage_seconds_total", "", 2*used)
	line("node_memory_working_set_bytes", "", 4<<20)
	for key := range w.running[n.Name] {
		p := strings.Split(key, "/")
		l := fmt.Sprintf(`{namespace=%q,pod=%q,container=%q}`, p[0], p[1], p[2])
		line("container_cpu_usage_seconds_total", l, used)
		line("container_memory_working_set_bytes", l, 1<<20)
	}
	return []byte(b.String()), nil
}

// pod runs a pod of some containers; it is Pending when it has none.
func (w *world) pod(namespace, name, node string, labels map[string]string, containers ...string) {
	w.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: corev1.PodSpec{NodeName: node}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, Image: "i"})
		w.mu.Lock()
		if w.running[node] == nil {
			w.running[node] = map[string]bool{}
		}
		w.running[node][namespace+"/"+name+"/"+c] = true
		w.mu.Unlock()
	}
	phase := corev1.PodRunning
	if len(containers) == 0 {
		p.Spec.Containers, phase = []corev1.Container{{Name: "c", Image: "i"}}, corev1.PodPending
	}
	made, err := client.Create(w.Context(), w.client, client.Pods, p)
	if err == nil {
		made = made.DeepCopy()
		made.Status.Phase = phase
		_, err = w.client.Update(w.Context(), client.Pods, made, "status")
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) get(path string, accept ...string) *httptest.ResponseRecorder {
	w.Helper()
	r := httptest.NewRequest(http.MethodGet, "/apis/metrics.k8s.io/v1beta1/"+path, nil)
	r.Header.Set("Accept", strings.Join(accept, ","))
	a := httptest.NewRecorder()
	w.server.ServeHTTP(a, r)
	return a
}

// pods lists "namespace/name container=cpu,memory window".
func (w *world) pods(path string) string {
	w.Helper()
	a := w.get(path)
	var list metricsv1beta1.PodMetricsList
	if err := json.Unmarshal(a.Body.Bytes(), &list); err != nil || a.Code != 200 || list.Kind != "PodMetricsList" {
		w.Fatalf("%d %s: %v", a.Code, a.Body, err)
	}
	var out []string
	for _, m := range list.Items {
		line := m.Namespace + "/" + m.Name
		for _, c := range m.Containers {
			line += fmt.Sprintf(" %s=%s,%s", c.Name, c.Usage.Cpu(), c.Usage.Memory())
		}
		out = append(out, line+" "+m.Window.Duration.String())
	}
	return strings.Join(out, "; ")
}

func (w *world) scrapes() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.asked)
}

func (w *world) expect(what, got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestPods(t *testing.T) {
	story(t, func(w *world) {
		web := map[string]string{"app": "web"}
		w.pod("default", "web-1", "n1", web, "app", "side")
		w.pod("default", "web-2", "n1", web)
		w.pod("default", "db", "n2", nil, "app")
		w.pod("other", "web", "n2", web, "app")
		time.Sleep(time.Minute)

		// The first answer takes a second; only the nodes that it needs are
		// asked.
		begin := time.Now()
		w.expect("by label", w.pods("namespaces/default/pods?labelSelector=app%3Dweb"), "default/web-1 app=500m,1Mi side=500m,1Mi 1s")
		w.expect("scrapes", w.scrapes(), "map[n1:2]")
		if took := time.Since(begin); took != time.Second {
			t.Errorf("it took %s", took)
		}
		// Asked again at once, nobody is asked; after a while once, and usage is
		// that since the last time.
		w.expect("again", w.pods("namespaces/default/pods?fieldSelector=metadata.name%3Dweb-1"), "default/web-1 app=500m,1Mi side=500m,1Mi 1s")
		w.expect("scrapes", w.scrapes(), "map[n1:2]")
		time.Sleep(15 * time.Second)
		w.expect("later", w.pods("namespaces/default/pods?labelSelector=app"), "default/web-1 app=500m,1Mi side=500m,1Mi 15s")
		w.expect("scrapes", w.scrapes(), "map[n1:3]")
		w.expect("all", w.pods("pods"), "default/db app=500m,1Mi 1s; default/web-1 app=500m,1Mi side=500m,1Mi 15s; other/web app=500m,1Mi 1s")
		w.expect("none", w.pods("namespaces/default/pods?labelSelector=app%3Dnone"), "")

		// Nobody asks: nobody is asked.
		before := w.scrapes()
		time.Sleep(time.Hour)
		w.expect("scrapes of an hour", w.scrapes(), before)
		w.expect("an hour later", w.pods("namespaces/other/pods"), "other/web app=500m,1Mi 1s")

		for path, code := range map[string]int{
			"namespaces/default/pods/web-1": 200, "namespaces/default/pods/web-2": 404, "namespaces/default/pods/none": 404,
			"pods/web-1": 404, "namespaces/default/nodes": 404, "services": 404, "namespaces/default/pods/web-1/log": 404,
			"pods?labelSelector=a%3D%3D%3D": 400, "pods?fieldSelector=spec.nodeName%3Dn1": 400, "pods?watch=true": 405,
		} {
			if a := w.get(path); a.Code != code {
				t.Errorf("%s: %d %s, want %d", path, a.Code, a.Body, code)
			}
		}
		w.expect("absence", message(w, "namespaces/default/pods/none"), `podmetrics.metrics.k8s.io "default/none" not found`)
		a := httptest.NewRecorder()
		w.server.ServeHTTP(a, httptest.NewRequest(http.MethodDelete, "/apis/metrics.k8s.io/v1beta1/nodes/n1", nil))
		if a.Code != http.StatusMethodNotAllowed {
			t.Errorf("a deletion: %d %s", a.Code, a.Body)
		}
	})
}

func message(w *world, path string) string {
	var s metav1.Status
	if err := json.Unmarshal(w.get(path).Body.Bytes(), &s); err != nil || s.Kind != "Status" {
		w.Fatal(err)
	}
	return s.Message
}

func TestNodes(t *testing.T) {
	story(t, func(w *world) {
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.dead["n2"] = true
		w.mu.Unlock()
		var list metricsv1beta1.NodeMetricsList
		if err := json.Unmarshal(w.get("nodes").Body.Bytes(), &list); err != nil || len(list.Items) != 1 {
			t.Fatalf("%v, %+v", err, list)
		}
		n := list.Items[0]
		if n.Name != "n1" || n.Labels["disk"] != "n1" || n.Usage.Cpu().String() != "1" || n.Usage.Memory().String() != "4Mi" || !n.Timestamp.Time.Equal(time.Now()) {
			t.Errorf("got %+v", n)
		}
		// A dead node is not asked again at once, and comes back.
		w.expect("a dead node", message(w, "nodes/n2"), `nodemetrics.metrics.k8s.io "n2" not found`)
		w.expect("scrapes", w.scrapes(), "map[n1:2 n2:1]")
		w.mu.Lock()
		w.dead["n2"] = false
		w.mu.Unlock()
		time.Sleep(fresh)
		if a := w.get("nodes/n2"); a.Code != 200 {
			t.Errorf("after its return: %s", a.Body)
		}
		w.expect("a node that is not there", message(w, "nodes/n3"), `nodemetrics.metrics.k8s.io "n3" not found`)
	})
}

// What nobody asks for any more is forgotten, and nothing goes on after it.
func TestForgets(t *testing.T) {
	story(t, func(w *world) {
		kept := func() int {
			w.server.sampler.mu.Lock()
			defer w.server.sampler.mu.Unlock()
			return len(w.server.sampler.nodes)
		}
		w.get("nodes")
		time.Sleep(longest / 2)
		w.get("nodes/n1")
		if n := kept(); n != 2 {
			t.Errorf("%d nodes are kept, want 2", n)
		}
		time.Sleep(longest / 2)
		synctest.Wait()
		if n := kept(); n != 1 {
			t.Errorf("%d nodes are kept, want the one that was asked for", n)
		}
		time.Sleep(2 * longest)
		synctest.Wait()
		if w.server.sampler.sweeping || kept() != 0 {
			t.Errorf("in the end %d nodes are kept, sweeping %t", kept(), w.server.sampler.sweeping)
		}
	})
}

// Many who ask at once for what is not there yet cause one pair of scrapes.
func TestTogether(t *testing.T) {
	story(t, func(w *world) {
		time.Sleep(time.Minute)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { w.get("nodes/n1") })
		}
		wg.Wait()
		w.expect("scrapes", w.scrapes(), "map[n1:2]")
	})
}

func TestUsage(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration, cpu float64) point { return point{at: now.Add(-ago), cpu: cpu} }
	for name, tc := range map[string]struct {
		before, now point
		want        string
	}{
		"steady":                  {at(10*time.Second, 5), at(0, 8), "300m 10s"},
		"idle":                    {at(10*time.Second, 5), at(0, 5), "0 10s"},
		"started again since":     {at(60*time.Second, 50), at(0, 3).started(now.Add(-30 * time.Second)), "100m 30s"},
		"counts less than before": {at(60*time.Second, 50), at(0, 3), "no"},
		"new":                     {point{}, at(0, 3).started(now.Add(-30 * time.Second)), "100m 30s"},
		"too new":                 {point{}, at(0, 3).started(now.Add(-9 * time.Second)), "no"},
		"of unknown age":          {point{}, at(0, 3), "no"},
		"the same measurement":    {at(0, 3), at(0, 3), "no"},
	} {
		got := "no"
		if use, window, ok := usage(tc.before.point(), tc.now.point()); ok {
			got = fmt.Sprintf("%s %s", use.Cpu(), window)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestForms(t *testing.T) {
	story(t, func(w *world) {
		w.pod("default", "web", "n1", map[string]string{"app": "web"}, "a", "b")
		time.Sleep(time.Minute)
		table := w.get("namespaces/default/pods", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json")
		var tab metav1.Table
		if err := json.Unmarshal(table.Body.Bytes(), &tab); err != nil || tab.Kind != "Table" || len(tab.Rows) != 1 {
			t.Fatalf("%v %s", err, table.Body)
		}
		var columns []string
		for _, c := range tab.ColumnDefinitions {
			columns = append(columns, c.Name)
		}
		w.expect("columns", strings.Join(columns, " "), "Name cpu memory Window")
		w.expect("row", fmt.Sprint(tab.Rows[0].Cells), "[web 1 2Mi 1s]")
		var partial metav1.PartialObjectMetadata
		if err := json.Unmarshal(tab.Rows[0].Object.Raw, &partial); err != nil || partial.Labels["app"] != "web" {
			t.Errorf("the row's object is %s", tab.Rows[0].Object.Raw)
		}
		proto := w.get("namespaces/default/pods/web", typeProto)
		var unknown runtime.Unknown
		var m metricsv1beta1.PodMetrics
		raw, ok := strings.CutPrefix(proto.Body.String(), "k8s\x00")
		if !ok || unknown.Unmarshal([]byte(raw)) != nil || m.Unmarshal(unknown.Raw) != nil || m.Name != "web" || len(m.Containers) != 2 || unknown.Kind != "PodMetrics" {
			t.Errorf("protobuf: %v %+v", unknown.TypeMeta, m)
		}
		if a := w.get("nodes", typeYAML); !strings.Contains(a.Body.String(), "kind: NodeMetricsList\n") || a.Header().Get("Content-Type") != typeYAML {
			t.Errorf("YAML: %s", a.Body)
		}
		meta := w.get("nodes", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
		if !strings.Contains(meta.Body.String(), `"kind":"PartialObjectMetadataList"`) || strings.Contains(meta.Body.String(), "usage") {
			t.Errorf("metadata: %s", meta.Body)
		}
		if a := w.get("nodes", "text/html"); a.Code != http.StatusNotAcceptable {
			t.Errorf("HTML: %d", a.Code)
		}
		if a := w.get("nodes", "text/html", "*/*"); a.Code != 200 {
			t.Errorf("anything: %d", a.Code)
		}
	})
}
