package setpoint_test

import (
	"context"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-project/setpoint"
)

// Two clusters in one process, each with client-go's own client: a Deployment
// becomes available in one and is unknown to the other.
func TestStart(t *testing.T) {
	first, second := start(t, setpoint.Options{SimulatedNodes: 2}), start(t, setpoint.Options{})
	ctx := t.Context()
	labels, replicas := map[string]string{"app": "a"}, int32(3)
	want := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: appsv1.DeploymentSpec{Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
	deployments := client(t, first).AppsV1().Deployments("default")
	watch, err := deployments.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := deployments.Create(ctx, want, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for e := range watch.ResultChan() {
		if d, ok := e.Object.(*appsv1.Deployment); ok && d.Status.AvailableReplicas == 3 {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
	}
	list, err := client(t, second).AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("the second cluster has %d Deployments (%v)", len(list.Items), err)
	}
}

func start(t *testing.T, o setpoint.Options) *setpoint.Cluster {
	t.Helper()
	c, err := setpoint.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if _, err := os.Stat(c.Kubeconfig()); err == nil {
			t.Errorf("%s is left after Stop", c.Kubeconfig())
		}
	})
	return c
}

func client(t *testing.T, c *setpoint.Cluster) *kubernetes.Clientset {
	t.Helper()
	cs, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// Whoever waits for a cluster's end learns of it; one that was stopped did not
// fail.
func TestDone(t *testing.T) {
	c := start(t, setpoint.Options{})
	select {
	case <-c.Done():
		t.Fatalf("it ended by itself: %v", c.Err())
	default:
	}
	for range 2 {
		if err := c.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	<-c.Done()
	if err := c.Err(); err != nil {
		t.Errorf("after Stop: %v", err)
	}
}

func TestStartRefuses(t *testing.T) {
	for _, o := range []setpoint.Options{{SimulatedNodes: -1}, {Listen: "nonsense"}} {
		if c, err := setpoint.Start(t.Context(), o); err == nil {
			c.Stop()
			t.Errorf("%+v: started", o)
		}
	}
}
