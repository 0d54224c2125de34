package controllertest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/deployment"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
)

// The loops work over the network as they do in process: a Deployment comes up
// and rolls over, and no pod is made that is not needed.
func TestLoopsOverTheNetwork(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // only decides how long a failing test takes
	defer cancel()
	h := apitest.New(t, apitest.Options{HTTP: true})
	dial := func() *client.Remote {
		r, err := client.NewRemote(h.Config(), client.Identity{UserAgent: "loops"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	o := controllers.Options{Client: dial()}
	loops := append(controllertest.Kubelets(controllers.Options{Client: h.Client("kubelets")}), deployment.New(o), replicaset.New(o))
	for _, l := range loops {
		ended := make(chan struct{})
		go func() { l.Run(ctx); close(ended) }()
		defer func() { cancel(); <-ended }()
	}

	replicas, all, none := int32(20), intstr.FromString("100%"), intstr.FromInt32(0)
	labels := map[string]string{"app": "web"}
	c := h.Client("tester")
	d, err := client.Create(ctx, c, client.Deployments, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &all, MaxUnavailable: &none},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	pods := map[string]string{} // guarded by mu: every pod there ever was, with its image
	var once sync.Once
	told := make(chan struct{}) // closed when the last pod of the test is among them
	c.View(client.Pods, client.ViewOptions{}).Handle(func(_, new client.Object) {
		mu.Lock()
		defer mu.Unlock()
		if pod, ok := new.(*corev1.Pod); ok {
			if pods[pod.Name] = pod.Spec.Containers[0].Image; pod.Name == "last" {
				once.Do(func() { close(told) })
			}
		}
	})
	await(ctx, t, c, d.Generation)
	// The loop may still write the status.
	if err := retry.RetryOnConflict(wait.Backoff{Steps: 1000}, func() error {
		d = client.In[*appsv1.Deployment](c.View(client.Deployments, client.ViewOptions{}), "default", "web").DeepCopy()
		d.Spec.Template.Spec.Containers[0].Image = "v2"
		d, err = client.Update(ctx, c, client.Deployments, d)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, c, d.Generation)
	// Whoever is told of this pod was told of all before it.
	last := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "last"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "last"}}}}
	if _, err := c.Create(ctx, client.Pods, last); err != nil {
		t.Fatal(err)
	}
	select {
	case <-told:
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	}
	cancel()
	mu.Lock()
	defer mu.Unlock()
	count := map[string]int{}
	for _, image := range pods {
		count[image]++
	}
	if count["v1"] != 20 || count["v2"] != 20 {
		t.Errorf("pods were made: %v, want 20 of each", count)
	}
}

// await waits until a generation is rolled out.
func await(ctx context.Context, t *testing.T, c client.Interface, generation int64) {
	t.Helper()
	v := c.View(client.Deployments, client.ViewOptions{})
	done := make(chan struct{}, 1)
	defer v.Handle(func(_, new client.Object) {
		d, ok := new.(*appsv1.Deployment)
		if ok && d.Status.ObservedGeneration >= generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
			d.Status.AvailableReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas {
			select {
			case done <- struct{}{}:
			default:
			}
		}
	})()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("the rollout does not end: %+v %+v", client.In[*appsv1.Deployment](v, "default", "web").Status,
			client.Listed[*appsv1.ReplicaSet](c.View(client.ReplicaSets, client.ViewOptions{}), ""))
	}
}
