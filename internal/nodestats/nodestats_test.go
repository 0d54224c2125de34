package nodestats

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

var at = metav1.NewTime(time.Date(2026, 11, 29, 12, 0, 0, 250e6, time.UTC))

func cpu(ns uint64) *statsv1alpha1.CPUStats {
	return &statsv1alpha1.CPUStats{Time: at, UsageCoreNanoSeconds: &ns}
}

func memory(n uint64) *statsv1alpha1.MemoryStats {
	return &statsv1alpha1.MemoryStats{Time: at, WorkingSetBytes: &n}
}

func summary() *statsv1alpha1.Summary {
	start := metav1.NewTime(at.Add(-time.Minute))
	return &statsv1alpha1.Summary{
		Node: statsv1alpha1.NodeStats{NodeName: "n", CPU: cpu(9e9), Memory: memory(900)},
		Pods: []statsv1alpha1.PodStats{
			{PodRef: statsv1alpha1.PodReference{Namespace: "default", Name: "a", UID: "u"}, CPU: cpu(3e9), Memory: memory(300),
				Containers: []statsv1alpha1.ContainerStats{
					{Name: "app", StartTime: start, CPU: cpu(1_500_000_000), Memory: memory(100)},
					{Name: "side", StartTime: start, CPU: cpu(1), Memory: memory(200)},
					{Name: "new", CPU: cpu(1)}, // its memory is not known yet
				}},
			{PodRef: statsv1alpha1.PodReference{Namespace: "other", Name: "b"}},
		},
	}
}

func ask(t *testing.T, collect Collect, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(collect).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func good(context.Context, bool) (*statsv1alpha1.Summary, error) { return summary(), nil }

// What is written at /metrics/resource is what is read from it.
func TestResource(t *testing.T) {
	w := ask(t, good, "/metrics/resource")
	got, err := Read(w.Body.Bytes(), time.Now())
	if err != nil {
		t.Fatalf("%v\n%s", err, w.Body)
	}
	start := at.Add(-time.Minute)
	want := &Sample{
		Node: Point{At: at.Time, CPU: 9, Memory: 900},
		Pods: map[types.NamespacedName]map[string]Point{{Namespace: "default", Name: "a"}: {
			"app":  {At: at.Time, Start: start, CPU: 1.5, Memory: 100},
			"side": {At: at.Time, Start: start, CPU: 1e-9, Memory: 200},
		}},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Point{}), cmpopts.EquateApproxTime(time.Millisecond)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	for _, line := range []string{
		"# TYPE container_cpu_usage_seconds_total counter\n",
		`container_cpu_usage_seconds_total{container="app",namespace="default",pod="a"} 1.5 1795953600250` + "\n",
		`pod_memory_working_set_bytes{namespace="default",pod="a"} 300 1795953600250` + "\n",
		"node_cpu_usage_seconds_total 9 1795953600250\n",
		"resource_scrape_error 0\n",
	} {
		if !strings.Contains(w.Body.String(), line) {
			t.Errorf("no line %q in\n%s", line, w.Body)
		}
	}
}

func TestCadvisor(t *testing.T) {
	text := ask(t, good, "/metrics/cadvisor").Body.String()
	for _, line := range []string{
		`container_cpu_usage_seconds_total{container="app",id="/kubepods/podu/app",namespace="default",pod="a",cpu="total"} 1.5 1795953600250`,
		`container_memory_working_set_bytes{container="",id="/kubepods/podu",namespace="default",pod="a"} 300 1795953600250`,
		`container_memory_working_set_bytes{container="",id="/",namespace="",pod=""} 900 1795953600250`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

func TestSummary(t *testing.T) {
	var asked []bool
	collect := func(_ context.Context, full bool) (*statsv1alpha1.Summary, error) {
		asked = append(asked, full)
		return summary(), nil
	}
	var got statsv1alpha1.Summary
	if err := json.Unmarshal(ask(t, collect, "/stats/summary").Body.Bytes(), &got); err != nil || got.Node.NodeName != "n" || len(got.Pods) != 2 {
		t.Errorf("%v, %+v", err, got)
	}
	ask(t, collect, "/stats/summary?only_cpu_and_memory=true")
	if len(asked) != 2 || !asked[0] || asked[1] {
		t.Errorf("asked for everything: %v", asked)
	}
	bad := func(context.Context, bool) (*statsv1alpha1.Summary, error) {
		return nil, errors.New("the runtime is away")
	}
	for _, path := range []string{"/stats/summary", "/metrics/resource", "/metrics/cadvisor"} {
		if w := ask(t, bad, path); w.Code != 500 || !strings.Contains(w.Body.String(), "the runtime is away") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestReadOthers(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const node = "node_cpu_usage_seconds_total 1\nnode_memory_working_set_bytes 2\n"
	// A label may hold anything, in any order, and times may be left out.
	s, err := Read([]byte(node+`container_cpu_usage_seconds_total{pod="a\"}\\",extra="x", namespace="n",container="c",} 1.5e+00`+"\n"+
		`container_memory_working_set_bytes{container="c",namespace="n",pod="a\"}\\"} 4.096e+03 1`+"\n"), now)
	if err != nil {
		t.Fatal(err)
	}
	p := s.Pods[types.NamespacedName{Namespace: "n", Name: `a"}\`}]["c"]
	if p.CPU != 1.5 || p.Memory != 4096 || !p.At.Equal(now) {
		t.Errorf("got %+v of %+v", p, s.Pods)
	}
	for _, bad := range []string{
		"", "node_cpu_usage_seconds_total 1\n", node + "container_cpu_usage_seconds_total{a=\"b 1\n", node + "container_cpu_usage_seconds_total{a} 1\n",
		node + "container_cpu_usage_seconds_total\n", "node_cpu_usage_seconds_total x\n", "node_cpu_usage_seconds_total -1\n",
		"node_cpu_usage_seconds_total NaN\n", "node_cpu_usage_seconds_total 1 x\n", "node_cpu_usage_seconds_total 1 2 3\n",
	} {
		if _, err := Read([]byte(bad), now); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
