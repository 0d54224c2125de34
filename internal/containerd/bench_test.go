package containerd

import (
	"fmt"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// BenchmarkPod measures a pod's way from nothing to a running container, and
// back to nothing.
func BenchmarkPod(b *testing.B) {
	i := newInstance(b, "bench")
	i.run()
	i.pod("warm")
	var down time.Duration
	n := 0
	for b.Loop() {
		sandbox, container := i.pod(fmt.Sprintf("p%d", n))
		n++
		b.StopTimer()
		begin := time.Now()
		if _, err := i.cri.StopContainer(i.context(), &cri.StopContainerRequest{ContainerId: container, Timeout: 1}); err != nil {
			b.Fatal(err)
		}
		if _, err := i.cri.StopPodSandbox(i.context(), &cri.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
			b.Fatal(err)
		}
		if _, err := i.cri.RemovePodSandbox(i.context(), &cri.RemovePodSandboxRequest{PodSandboxId: sandbox}); err != nil {
			b.Fatal(err)
		}
		down += time.Since(begin)
		b.StartTimer()
	}
	b.ReportMetric(float64(down.Milliseconds())/float64(n), "ms-down/op")
}

// BenchmarkReady measures the time from nothing running to a runtime that is
// ready, with its files and images there from an earlier start.
func BenchmarkReady(b *testing.B) {
	i := newInstance(b, "ready")
	i.options.StopDaemon = true
	i.run()()
	for b.Loop() {
		stop := i.run()
		b.StopTimer()
		stop()
		b.StartTimer()
	}
}
