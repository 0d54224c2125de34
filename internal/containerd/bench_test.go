package containerd

import (
	"fmt"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// BenchmarkPod measures a pod's way from nothing to a running container, and
// back to nothing.
func BenchmarkPod(b *testing.B) {
	i := newInstance(b, "bench")
	i.run()
	ids := make([]string, 0, b.N)
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			sandbox, _ := i.pod(fmt.Sprintf("p%d", len(ids)))
			ids = append(ids, sandbox)
		}
	})
	b.Run("remove", func(b *testing.B) {
		b.N = len(ids)
		b.ResetTimer()
		for _, id := range ids {
			if _, err := i.cri.StopPodSandbox(i.context(), &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
				b.Fatal(err)
			}
			if _, err := i.cri.RemovePodSandbox(i.context(), &cri.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
				b.Fatal(err)
			}
		}
	})
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
