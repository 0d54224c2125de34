package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

// BenchmarkCluster creates b.N pods on 1,000 simulated nodes and waits until
// all are bound, and then until all are Ready: -benchtime 10000x. The API
// server is in the same process, with a store in memory, so that cpu-ms/pod is
// that of all parts together.
func BenchmarkCluster(b *testing.B) {
	const nodes = 1000
	h := apitest.New(b, apitest.Options{Mutable: true, Namespaces: []string{"default", corev1.NamespaceNodeLease}})
	c := h.Client("admin")
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	sim, err := simnode.New(simnode.Options{Client: h.Client("nodes"), Count: nodes})
	if err != nil {
		b.Fatal(err)
	}
	wg.Go(func() { sim.Run(ctx) })
	nodeView := c.View(client.Nodes, client.ViewOptions{})
	registered, signal := atomic.Int64{}, make(chan struct{}, 1)
	defer nodeView.Handle(func(old, new client.Object) {
		if allocatable(old) == 0 && allocatable(new) > 0 && registered.Add(1) == nodes {
			signal <- struct{}{}
		}
	})()
	<-signal
	sched := newScheduler(scheduler.Options{Client: h.Client("scheduler"), Seed: 1})
	wg.Go(func() { sched.Run(ctx) })

	bound, ready := make(chan struct{}), make(chan struct{})
	var boundCount, readyCount atomic.Int64
	defer c.View(client.Pods, client.ViewOptions{}).Handle(func(old, new client.Object) {
		was, _ := old.(*corev1.Pod)
		is, _ := new.(*corev1.Pod)
		if is == nil {
			return
		}
		if is.Spec.NodeName != "" && (was == nil || was.Spec.NodeName == "") && boundCount.Add(1) == int64(b.N) {
			close(bound)
		}
		if is.Status.Phase == corev1.PodRunning && (was == nil || was.Status.Phase != corev1.PodRunning) && readyCount.Add(1) == int64(b.N) {
			close(ready)
		}
	})()
	b.ResetTimer()
	cpu := cpuSeconds()
	var next atomic.Int64
	for range 16 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i), Labels: map[string]string{"app": "web"}},
					Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c", Image: "app",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: amounts(1)[corev1.ResourceCPU]}}}}}}
				if _, err := c.Create(ctx, client.Pods, p); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	<-bound
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "bound/s")
	<-ready
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ready/s")
	b.ReportMetric((cpuSeconds()-cpu)*1000/float64(b.N), "cpu-ms/pod")
}

func allocatable(obj client.Object) int64 {
	if node, ok := obj.(*corev1.Node); ok {
		return node.Status.Allocatable.Pods().Value()
	}
	return 0
}

// cpuSeconds is the CPU that this process has used.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
