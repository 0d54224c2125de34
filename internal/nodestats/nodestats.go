// Package nodestats holds the forms in which a node tells what runs on it and
// what that uses, as kubelets serve them:
//
//	/stats/summary      everything, as JSON (k8s.io/kubelet/pkg/apis/stats/v1alpha1)
//	/metrics/resource   CPU and memory, as Prometheus's text: what a metrics server scrapes
//	/metrics/cadvisor   the same under cAdvisor's names, which dashboards know
//
// Handler writes them all from one Summary; Read reads /metrics/resource.
// https://kubernetes.io/docs/reference/instrumentation/node-metrics/
//
// Concurrency: nothing here has a state. Failure: whoever collects fails, and
// the answer is 500 with the reason; of a container that could not be read
// there is no line, never a wrong one.
package nodestats

import (
	"context"
	"encoding/json"
	"net/http"

	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Collect reads what a node uses; full asks for file systems and networks as
// well, which cost more.
type Collect func(ctx context.Context, full bool) (*statsv1alpha1.Summary, error)

// textType is Prometheus's text format.
const textType = "text/plain; version=0.0.4; charset=utf-8"

// Handler serves the three paths.
func Handler(collect Collect) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats/summary", func(w http.ResponseWriter, r *http.Request) {
		s, err := collect(r.Context(), r.URL.Query().Get("only_cpu_and_memory") != "true")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		_ = e.Encode(s)
	})
	text := func(path string, write func(*builder, *statsv1alpha1.Summary)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			s, err := collect(r.Context(), false)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			b := &builder{}
			write(b, s)
			w.Header().Set("Content-Type", textType)
			_, _ = w.Write(b.out)
		})
	}
	text("/metrics/resource", resource)
	text("/metrics/cadvisor", cadvisor)
	return mux
}
