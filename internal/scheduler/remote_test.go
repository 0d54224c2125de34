package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

// The scheduler and the nodes are as well on the other side of a network, two
// of each.
func TestOverTheNetwork(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true, Namespaces: []string{"default", corev1.NamespaceNodeLease}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	remote := func(agent string) client.Interface {
		c, err := client.NewRemote(h.Config(), client.Identity{UserAgent: agent})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	for i := range 2 {
		sim, err := simnode.New(simnode.Options{Client: remote("nodes"), Count: 3, Prefix: fmt.Sprintf("sim%d-", i), Addresses: fmt.Sprintf("198.18.%d.0/24", i)})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { sim.Run(ctx) })
		s := newScheduler(scheduler.Options{Client: remote("scheduler")})
		wg.Go(func() { s.Run(ctx) })
	}
	const count = 60
	c := h.Client("admin")
	done := make(chan struct{})
	running := map[string]bool{} // of the handler's goroutine
	defer c.View(client.Pods, client.ViewOptions{}).Handle(func(_, obj client.Object) {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning && !running[pod.Name] {
			if running[pod.Name] = true; len(running) == count {
				close(done)
			}
		}
	})()
	for i := range count {
		_, err := c.Create(ctx, client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "app"}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	<-done
}
