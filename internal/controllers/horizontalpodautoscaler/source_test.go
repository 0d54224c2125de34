package horizontalpodautoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	custommetrics "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalmetrics "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/client"
)

// served is what is answered at a path with a query.
type served struct {
	client.Interface
	answers map[string]any
	lists   int // of what is served
}

func (s *served) Raw(_ context.Context, path string, query url.Values) ([]byte, error) {
	if q := query.Encode(); q != "" {
		path += "?" + q
	}
	a, ok := s.answers[path]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	return json.Marshal(a)
}

func (s *served) Resources(context.Context) ([]client.ResourceInfo, error) {
	s.lists++
	return []client.ResourceInfo{
		{Resource: client.Services, Kind: "Service", Namespaced: true},
		{Resource: client.Nodes, Kind: "Node"},
		{Resource: client.Resource{Group: "db.example.com", Version: "v1", Resource: "clusters"}, Kind: "Cluster", Namespaced: true},
	}, nil
}

func value(name, v string) custommetrics.MetricValue {
	return custommetrics.MetricValue{DescribedObject: corev1.ObjectReference{Name: name}, Value: resource.MustParse(v), Timestamp: metav1.NewTime(now), WindowSeconds: new(int64(30))}
}

func TestSource(t *testing.T) {
	podMetrics := metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{
		{ObjectMeta: metav1.ObjectMeta{Name: "p0"}, Timestamp: metav1.NewTime(now), Window: metav1.Duration{Duration: time.Minute}, Containers: []metricsv1beta1.ContainerMetrics{
			{Name: "app", Usage: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Ki")}}, {Name: "side", Usage: corev1.ResourceList{"cpu": resource.MustParse("20m")}}}},
	}}
	one := func(v string) custommetrics.MetricValueList {
		return custommetrics.MetricValueList{Items: []custommetrics.MetricValue{value("x", v)}}
	}
	c := &served{answers: map[string]any{
		"/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb":  podMetrics,
		"/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dnone": metricsv1beta1.PodMetricsList{},
		"/apis/custom.metrics.k8s.io": metav1.APIGroup{PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "custom.metrics.k8s.io/v1beta2", Version: "v1beta2"}},
		"/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/qps?labelSelector=app%3Dweb&metricLabelSelector=verb%3Dget": custommetrics.MetricValueList{Items: []custommetrics.MetricValue{value("p0", "7"), value("p1", "500m")}},
		"/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/services/s/qps":                                                    one("3"),
		"/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/clusters.db.example.com/c/qps":                                     one("4"),
		"/apis/custom.metrics.k8s.io/v1beta2/nodes/n/qps":                                                                          one("5"),
		"/apis/custom.metrics.k8s.io/v1beta2/namespaces/other/metrics/qps":                                                         one("6"),
		"/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue?labelSelector=name%3Da":                                    externalmetrics.ExternalMetricValueList{Items: []externalmetrics.ExternalMetricValue{{Value: resource.MustParse("2")}, {Value: resource.MustParse("1500m")}}},
		"/apis/external.metrics.k8s.io/v1beta1/namespaces/default/empty":                                                           externalmetrics.ExternalMetricValueList{},
	}}
	s := &source{client: c, kinds: &kinds{client: c}}
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	cpu := func(container string) autoscalingv2.MetricSpec {
		if container == "" {
			return autoscalingv2.MetricSpec{Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu"}}
		}
		return autoscalingv2.MetricSpec{ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "cpu", Container: container}}
	}
	selects := func(k, v string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{k: v}}
	}
	object := func(apiVersion, kind, name string) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Object: &autoscalingv2.ObjectMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "qps"},
			DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}}}
	}
	external := func(name string, by *metav1.LabelSelector) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: name, Selector: by}}}
	}
	for _, tc := range []struct {
		spec autoscalingv2.MetricSpec
		want string // pods and value, or the error
	}{
		{cpu(""), "p0=120/1m0s 0"},
		{cpu("side"), "p0=20/1m0s 0"},
		{cpu("none"), "unable to get metrics for resource cpu: failed to get container metrics: container none not present in metrics for pod default/p0"},
		// Of one container the memory is not known, so that of the pod is not.
		{autoscalingv2.MetricSpec{Resource: &autoscalingv2.ResourceMetricSource{Name: "memory"}}, " 0"},
		{autoscalingv2.MetricSpec{Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "qps", Selector: selects("verb", "get")}}}, "p0=7000/30s p1=500/30s 0"},
		{object("v1", "Service", "s"), " 3000"},
		{object("db.example.com/v2", "Cluster", "c"), " 4000"},
		{object("v1", "Node", "n"), " 5000"},
		{object("v1", "Namespace", "other"), " 6000"},
		{object("v1", "Odd", "o"), `unable to get metric qps: Odd on default o: unable to determine resource for scale target reference: no matches for kind "Odd" in group ""`},
		{external("queue", selects("name", "a")), " 3500"},
		{external("empty", nil), "unable to get external metric default/empty/nil: no metrics returned from external metrics API"},
	} {
		m := s.measure(t.Context(), "default", web, &tc.spec)
		got := fmt.Sprintf("%s %d", text(m.pods), m.value)
		if m.err != nil {
			got = m.err.Error()
		}
		if got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.spec, got, tc.want)
		}
	}
	none := cpu("")
	if m := s.measure(t.Context(), "default", labels.SelectorFromSet(labels.Set{"app": "none"}), &none); m.err == nil || m.err.Error() != "unable to get metrics for resource cpu: no metrics returned from resource metrics API" {
		t.Errorf("without any: %v", m.err)
	}
	if m := s.measure(t.Context(), "other", web, &none); !apierrors.IsNotFound(m.err) {
		t.Errorf("without a server: %v", m.err)
	}
	if c.lists != 4 { // one for each kind that was found, and one that was not
		t.Errorf("it was asked %d times what is served", c.lists)
	}
}

func text(r readings) string {
	out := ""
	for _, name := range []string{"p0", "p1"} {
		if m, ok := r[name]; ok {
			out += fmt.Sprintf(" %s=%d/%s", name, m.value, m.window)
		}
	}
	if out == "" {
		return ""
	}
	return out[1:]
}
