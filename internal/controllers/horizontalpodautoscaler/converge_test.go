package horizontalpodautoscaler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/deployment"
	"github.com/setpoint-project/setpoint/internal/controllers/horizontalpodautoscaler"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
)

// measuring is a client behind which metrics are served: the ready pods with a
// label app share the load that the ConfigMap of that name tells.
type measuring struct{ client.Interface }

func (m measuring) Raw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	if !strings.HasPrefix(path, "/apis/metrics.k8s.io/") {
		return m.Interface.Raw(ctx, path, query)
	}
	pods, _, err := client.List[*corev1.Pod](ctx, m, client.Pods, "default", metav1.ListOptions{LabelSelector: query.Get("labelSelector")})
	if err != nil {
		return nil, err
	}
	var ready []*corev1.Pod
	for _, p := range pods {
		if p.DeletionTimestamp == nil && controllers.Ready(p) {
			ready = append(ready, p)
		}
	}
	list := metricsv1beta1.PodMetricsList{}
	for _, p := range ready {
		load, err := client.Get[*corev1.ConfigMap](ctx, m, client.ConfigMaps, "default", p.Labels["app"])
		if err != nil {
			return nil, err
		}
		all, _ := strconv.ParseInt(load.Data["load"], 10, 64)
		list.Items = append(list.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, Timestamp: metav1.Now(), Window: metav1.Duration{Duration: 15 * time.Second},
			Containers: []metricsv1beta1.ContainerMetrics{{Name: "c", Usage: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(all/int64(len(ready)), resource.DecimalSI)}}},
		})
	}
	return json.Marshal(&list)
}

func loops(o controllers.Options) []controllers.Controller {
	o.Client = measuring{o.Client}
	return []controllers.Controller{horizontalpodautoscaler.New(o)}
}

func others(o controllers.Options) []controllers.Controller {
	return append(controllertest.Kubelets(o), deployment.New(o), replicaset.New(o))
}

func web(name string, replicas int32) *appsv1.Deployment {
	l := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: l},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}}}},
		},
	}
}

// scaler keeps the pods of a deployment at half of what they request.
func scaler(name, target string, least, most int32) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target},
			MinReplicas:    &least, MaxReplicas: most,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))}}}},
		},
	}
}

func load(name string, milli int32) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string]string{"load": fmt.Sprint(milli)}}
}

// status is where all have come to.
func status(w *controllertest.World) string {
	return w.Lines(client.Deployments, func(obj client.Object) string {
		d := obj.(*appsv1.Deployment)
		return fmt.Sprintf("%s: %d, %d ready", d.Name, *d.Spec.Replicas, d.Status.ReadyReplicas)
	}) + w.Lines(horizontalpodautoscaler.Autoscalers, func(obj client.Object) string {
		h := obj.(*autoscalingv2.HorizontalPodAutoscaler)
		line := fmt.Sprintf("%s: %d of %d, observed %t", h.Name, h.Status.CurrentReplicas, h.Status.DesiredReplicas, h.Status.ObservedGeneration != nil && *h.Status.ObservedGeneration == h.Generation)
		for _, c := range h.Status.Conditions {
			line += fmt.Sprintf(", %s %s %s", c.Type, c.Status, c.Reason)
		}
		for _, m := range h.Status.CurrentMetrics {
			if m.Resource != nil {
				line += fmt.Sprintf(", at %d%%", *m.Resource.Current.AverageUtilization)
			}
		}
		return line
	})
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: others, End: status, Runs: 100,
		Start: func(w *controllertest.World) {
			w.Create(client.ConfigMaps, load("web", 50*(1+w.Rand.Int32N(9))))
			w.Create(client.Deployments, web("web", 1+w.Rand.Int32N(9)))
			w.Create(horizontalpodautoscaler.Autoscalers, scaler("web", "web", 1+w.Rand.Int32N(2), 3+w.Rand.Int32N(6)))
			if w.Rand.IntN(4) == 0 {
				w.Create(horizontalpodautoscaler.Autoscalers, scaler("nobody", "none", 1, 2))
			}
		},
		Meanwhile: func(w *controllertest.World) {
			next := load("web", 50*(1+w.Rand.Int32N(9)))
			w.Edit(client.ConfigMaps, "default", "web", func(obj client.Object) { obj.(*corev1.ConfigMap).Data = next.Data })
			most := 3 + w.Rand.Int32N(8)
			w.Edit(horizontalpodautoscaler.Autoscalers, "default", "web", func(obj client.Object) {
				obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec.MaxReplicas = most
			})
			if w.Rand.IntN(3) == 0 {
				n := 1 + w.Rand.Int32N(9)
				w.Edit(client.Deployments, "default", "web", func(obj client.Object) { obj.(*appsv1.Deployment).Spec.Replicas = &n })
			}
		},
		Check: func(w *controllertest.World) error {
			d := w.Get(client.Deployments, "default", "web").(*appsv1.Deployment)
			h := w.Get(horizontalpodautoscaler.Autoscalers, "default", "web").(*autoscalingv2.HorizontalPodAutoscaler)
			all, _ := strconv.Atoi(w.Get(client.ConfigMaps, "default", "web").(*corev1.ConfigMap).Data["load"])
			want := min(max(int32(all/50), *h.Spec.MinReplicas), h.Spec.MaxReplicas)
			if *d.Spec.Replicas != want {
				return fmt.Errorf("a load of %d has %d replicas, want %d", all, *d.Spec.Replicas, want)
			}
			return nil
		},
	})
}

// Two autoscalers over the same pods leave them alone, until one goes.
func TestTwoOverOne(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: others, End: status, Runs: 50,
		Start: func(w *controllertest.World) {
			w.Create(client.ConfigMaps, load("web", 100))
			w.Create(client.Deployments, web("web", 2))
			w.Create(horizontalpodautoscaler.Autoscalers, scaler("one", "web", 1, 9))
			w.Create(horizontalpodautoscaler.Autoscalers, scaler("two", "web", 1, 9))
		},
		Meanwhile: func(w *controllertest.World) {
			time.Sleep(time.Minute) // both are known
			w.Edit(client.ConfigMaps, "default", "web", func(obj client.Object) { obj.(*corev1.ConfigMap).Data = load("web", 250).Data })
		},
		Check: func(w *controllertest.World) error {
			if n := *w.Get(client.Deployments, "default", "web").(*appsv1.Deployment).Spec.Replicas; n != 2 {
				return fmt.Errorf("%d replicas, want 2", n)
			}
			for _, name := range []string{"one", "two"} {
				h := w.Get(horizontalpodautoscaler.Autoscalers, "default", name).(*autoscalingv2.HorizontalPodAutoscaler)
				reason := ""
				for _, c := range h.Status.Conditions {
					if c.Type == autoscalingv2.ScalingActive {
						reason = string(c.Status) + " " + c.Reason
					}
				}
				if reason != "False AmbiguousSelector" {
					return fmt.Errorf("%s: ScalingActive is %s", name, reason)
				}
			}
			return nil
		},
	})
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: others, End: status, Runs: 50,
		Start: func(w *controllertest.World) {
			w.Create(client.ConfigMaps, load("web", 250))
			w.Create(client.Deployments, web("web", 2))
			w.Create(horizontalpodautoscaler.Autoscalers, scaler("one", "web", 1, 9))
			w.Create(horizontalpodautoscaler.Autoscalers, scaler("two", "web", 1, 9))
		},
		Meanwhile: func(w *controllertest.World) {
			time.Sleep(time.Minute)
			w.Delete(horizontalpodautoscaler.Autoscalers, "default", "two", metav1.DeleteOptions{})
		},
		Check: func(w *controllertest.World) error {
			if n := *w.Get(client.Deployments, "default", "web").(*appsv1.Deployment).Spec.Replicas; n != 5 {
				return fmt.Errorf("%d replicas, want 5", n)
			}
			return nil
		},
	})
}
