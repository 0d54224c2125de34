package replicaset_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
)

// BenchmarkPods is what a pod costs, in a ReplicaSet of 10,000, from the claim
// until the status tells of it: the loop, the API server and a store in
// memory.
func BenchmarkPods(b *testing.B) {
	const pods = 10_000
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		h := apitest.New(b, apitest.Options{Mutable: true})
		c := h.Client("tester")
		l := replicaset.New(controllers.Options{Client: c})
		ended := make(chan struct{})
		go func() { l.Run(ctx); close(ended) }()
		done := make(chan struct{})
		remove := c.View(client.ReplicaSets, client.ViewOptions{}).Handle(func(_, new client.Object) {
			if rs, ok := new.(*appsv1.ReplicaSet); ok && rs.Status.Replicas == pods {
				select {
				case <-done:
				default:
					close(done)
				}
			}
		})
		if _, err := c.Create(ctx, client.ReplicaSets, set(pods)); err != nil {
			b.Fatal(err)
		}
		<-done
		remove()
		cancel()
		<-ended
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pods, "ns/pod")
}
