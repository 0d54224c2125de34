package scheduling_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/scheduling"
)

// A scheduler of one's own places the pods that name it, over the network, by
// a configuration that enables its plugin.
func TestRun(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	c := h.Client("admin")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for name, labels := range map[string]map[string]string{"plain": nil, "licensed": {"example.com/licence": "yes"}} {
		made, err := client.Create(ctx, c, client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
		if err != nil {
			t.Fatal(err)
		}
		made = made.DeepCopy()
		made.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		made.Status.Capacity = made.Status.Allocatable
		if _, err := c.Update(ctx, client.Nodes, made, "status"); err != nil {
			t.Fatal(err)
		}
	}
	opts, err := scheduling.ReadConfig([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
  plugins: {multiPoint: {enabled: [{name: Licence}]}}
`), licence{})
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() { scheduling.Run(ctx, h.Config(), opts) })
	bound := make(chan string, 1)
	defer c.View(client.Pods, client.ViewOptions{}).Handle(func(_, new client.Object) {
		if pod, ok := new.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			select {
			case bound <- pod.Spec.NodeName:
			default:
			}
		}
	})()
	if _, err := c.Create(ctx, client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Annotations: map[string]string{"example.com/licence": "yes"}},
		Spec: corev1.PodSpec{SchedulerName: "mine", Containers: []corev1.Container{{Name: "c", Image: "app"}}}}); err != nil {
		t.Fatal(err)
	}
	select {
	case node := <-bound:
		if node != "licensed" {
			t.Errorf("it is on %s", node)
		}
	case <-time.After(time.Minute):
		t.Fatal("it is not placed")
	}
	if _, err := scheduling.ReadConfig([]byte("kind: Pod")); err == nil {
		t.Error("a Pod is taken for a configuration")
	}
	if err := scheduling.Run(ctx, h.Config(), scheduling.Options{Profiles: []scheduling.Profile{{Strategy: "none"}}}); err == nil {
		t.Error("a wrong profile is taken")
	}
}
