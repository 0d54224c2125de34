package kubelet_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// BenchmarkPod is a pod from its creation until it runs, until it is ready in
// the API server, and until nothing of it is left.
func BenchmarkPod(b *testing.B) {
	r := newRig(b)
	var up, down time.Duration
	n := 0
	for b.Loop() {
		name := fmt.Sprintf("p%d", n)
		n++
		began := time.Now()
		r.pod(name, `
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, `+forever+`]}
`)
		r.await(name, "Running", func(p *v1.Pod) bool { return phase(v1.PodRunning)(p) && ready(p) })
		up += time.Since(began)
		began = time.Now()
		r.delete(name, nil)
		r.await(name, "gone", gone)
		down += time.Since(began)
	}
	b.ReportMetric(float64(up.Milliseconds())/float64(n), "ms-to-ready")
	b.ReportMetric(float64(down.Milliseconds())/float64(n), "ms-to-gone")
}
