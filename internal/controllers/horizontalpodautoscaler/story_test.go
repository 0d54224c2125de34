package horizontalpodautoscaler_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/deployment"
	"github.com/setpoint-project/setpoint/internal/controllers/horizontalpodautoscaler"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
	"github.com/setpoint-project/setpoint/internal/metricsserver"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

// lab is a simulated node with the loops of deployments, and the built-in
// metrics server behind the front door.
type lab struct {
	*testing.T
	client client.Interface
}

func inLab(t *testing.T, f func(l *lab)) {
	synctest.Test(t, func(t *testing.T) {
		var server http.Handler
		h := apitest.New(t, apitest.Options{Namespaces: []string{"default", corev1.NamespaceNodeLease}, Extension: func(group, version string) http.Handler {
			if group == metricsserver.GroupVersion.Group && version == metricsserver.GroupVersion.Version {
				return server
			}
			return nil
		}})
		c := h.Client("loops")
		pods := c.View(client.Pods, client.ViewOptions{})
		kubelets := simnode.NewKubelets(pods)
		server = metricsserver.New(metricsserver.Config{Nodes: c.View(client.Nodes, client.ViewOptions{}), Pods: pods,
			Scrape: func(ctx context.Context, n *corev1.Node) ([]byte, error) {
				w := httptest.NewRecorder()
				kubelets.Of(n).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics/resource", nil))
				return w.Body.Bytes(), nil
			}})
		nodes, err := simnode.New(simnode.Options{Client: c, Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { nodes.Run(ctx) })
		o := controllers.Options{Client: c}
		for _, l := range []controllers.Controller{deployment.New(o), replicaset.New(o), horizontalpodautoscaler.New(o)} {
			wg.Go(func() { l.Run(ctx) })
		}
		f(&lab{T: t, client: c})
		cancel()
		wg.Wait()
	})
}

// deploy makes a deployment on the simulated node, whose pods share a load.
func (l *lab) deploy(d *appsv1.Deployment, load string) {
	l.Helper()
	d.Spec.Template.Annotations = map[string]string{simnode.Load: load}
	d.Spec.Template.Spec.NodeName = "sim-0"
	if _, err := l.client.Create(l.Context(), client.Deployments, d); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) scaler(h *autoscalingv2.HorizontalPodAutoscaler) {
	l.Helper()
	if _, err := l.client.Create(l.Context(), horizontalpodautoscaler.Autoscalers, h); err != nil {
		l.Fatal(err)
	}
}

// is "replicas: condition reason, ..." of an autoscaler and its deployment.
func (l *lab) is(name string) string {
	l.Helper()
	synctest.Wait()
	d, err := client.Get[*appsv1.Deployment](l.Context(), l.client, client.Deployments, "default", name)
	if err != nil {
		l.Fatal(err)
	}
	h, err := client.Get[*autoscalingv2.HorizontalPodAutoscaler](l.Context(), l.client, horizontalpodautoscaler.Autoscalers, "default", name)
	if err != nil {
		l.Fatal(err)
	}
	var conditions []string
	for _, c := range h.Status.Conditions {
		conditions = append(conditions, string(c.Status)+" "+c.Reason)
	}
	return fmt.Sprintf("%d: %s", *d.Spec.Replicas, strings.Join(conditions, ", "))
}

func (l *lab) expect(what, got, want string) {
	l.Helper()
	if got != want {
		l.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// A load on pods that request 100m each and are to use half of it.
func TestSimulatedLoad(t *testing.T) {
	inLab(t, func(l *lab) {
		l.deploy(web("web", 1), "300m")
		l.scaler(scaler("web", "web", 1, 20))
		time.Sleep(12 * time.Minute) // what was too much on the way up is taken back
		l.expect("300m", l.is("web"), "6: True ReadyForNewScale, True ValidMetricFound, False DesiredWithinRange")
		patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:"120m"}}}}}`, simnode.Load)
		if _, err := l.client.Patch(l.Context(), client.Deployments, "default", "web", types.MergePatchType, []byte(patch)); err != nil {
			l.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		l.expect("120m, at first", l.is("web"), "6: True ScaleDownStabilized, True ValidMetricFound, False DesiredWithinRange")
		time.Sleep(12 * time.Minute)
		l.expect("120m", l.is("web"), "3: True ReadyForNewScale, True ValidMetricFound, False DesiredWithinRange")
	})
}

// Pods that lack requests cannot be judged by a part of them, and say so.
func TestNoRequests(t *testing.T) {
	inLab(t, func(l *lab) {
		d := web("web", 3)
		d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		l.deploy(d, "1800m")
		l.scaler(scaler("web", "web", 1, 20))
		time.Sleep(time.Minute)
		l.expect("by utilization", l.is("web"), "3: True SucceededGetScale, False FailedGetResourceMetric")
		h, err := client.Get[*autoscalingv2.HorizontalPodAutoscaler](l.Context(), l.client, horizontalpodautoscaler.Autoscalers, "default", "web")
		if err != nil {
			l.Fatal(err)
		}
		if m := h.Status.Conditions[1].Message; !strings.HasPrefix(m, "the HPA was unable to compute the replica count: failed to get cpu utilization: missing request for cpu in container c of Pod web-") {
			l.Errorf("told is %q", m)
		}
		h = h.DeepCopy()
		h.Spec.Metrics[0].Resource.Target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("500m"))}
		if _, err := l.client.Update(l.Context(), horizontalpodautoscaler.Autoscalers, h); err != nil {
			l.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		l.expect("by value", l.is("web"), "4: True ReadyForNewScale, True ValidMetricFound, False DesiredWithinRange")
	})
}

// A target that is not there, then is; one that was scaled to zero by a person.
func TestTargets(t *testing.T) {
	inLab(t, func(l *lab) {
		l.scaler(scaler("web", "web", 2, 20))
		time.Sleep(time.Minute)
		h, err := client.Get[*autoscalingv2.HorizontalPodAutoscaler](l.Context(), l.client, horizontalpodautoscaler.Autoscalers, "default", "web")
		if err != nil {
			l.Fatal(err)
		}
		if c := h.Status.Conditions; len(c) != 1 || c[0].Reason != "FailedGetScale" || c[0].Status != corev1.ConditionFalse ||
			c[0].Message != `the HPA controller was unable to get the target's current scale: deployments.apps "web" not found` {
			l.Errorf("without a target: %+v", c)
		}
		l.deploy(web("web", 1), "0")
		time.Sleep(time.Minute)
		l.expect("too few", l.is("web"), "2: True ScaleDownStabilized, True ValidMetricFound, True TooFewReplicas")
		patch := []byte(`{"spec":{"replicas":0}}`)
		if _, err := l.client.Patch(l.Context(), client.Deployments, "default", "web", types.MergePatchType, patch); err != nil {
			l.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		l.expect("zero", l.is("web"), "0: True SucceededGetScale, False ScalingDisabled, True TooFewReplicas")
	})
}
