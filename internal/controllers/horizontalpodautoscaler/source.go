package horizontalpodautoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	custommetrics "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalmetrics "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// source reads metrics from whoever serves the three APIs of them:
// https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#support-for-metrics-apis
type source struct {
	client client.Interface
	kinds  *kinds
}

const (
	resourceMetrics = "metrics.k8s.io"
	customMetrics   = "custom.metrics.k8s.io"
	externalMetrics = "external.metrics.k8s.io"
)

// measure reads one metric of a spec.
func (s *source) measure(ctx context.Context, namespace string, selector labels.Selector, spec *autoscalingv2.MetricSpec) measured {
	switch {
	case spec.Resource != nil:
		r, err := s.resource(ctx, namespace, selector, spec.Resource.Name, "")
		return measured{pods: r, err: err}
	case spec.ContainerResource != nil:
		r, err := s.resource(ctx, namespace, selector, spec.ContainerResource.Name, spec.ContainerResource.Container)
		return measured{pods: r, err: err}
	case spec.Pods != nil:
		r, err := s.pods(ctx, namespace, selector, &spec.Pods.Metric)
		return measured{pods: r, err: err}
	case spec.Object != nil:
		v, err := s.object(ctx, namespace, spec.Object.DescribedObject, &spec.Object.Metric)
		return measured{value: v, err: err}
	case spec.External != nil:
		v, err := s.external(ctx, namespace, &spec.External.Metric)
		return measured{value: v, err: err}
	}
	return measured{}
}

func (s *source) read(ctx context.Context, path string, query url.Values, into any) error {
	data, err := s.client.Raw(ctx, path, query)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the answer of %s cannot be read: %w", path, err)
	}
	return nil
}

func selecting(key string, selector labels.Selector) url.Values {
	if selector.Empty() {
		return url.Values{}
	}
	return url.Values{key: {selector.String()}}
}

// resource reads what pods, or one container of each, use. A pod of which a
// container is not known is left out.
func (s *source) resource(ctx context.Context, namespace string, selector labels.Selector, name corev1.ResourceName, container string) (readings, error) {
	var list metricsv1beta1.PodMetricsList
	path := "/apis/" + metricsv1beta1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/pods"
	if err := s.read(ctx, path, selecting("labelSelector", selector), &list); err != nil {
		return nil, fmt.Errorf("unable to get metrics for resource %s: unable to fetch metrics from resource metrics API: %w", name, err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("unable to get metrics for resource %s: no metrics returned from resource metrics API", name)
	}
	out := readings{}
	for i := range list.Items {
		m := &list.Items[i]
		sum, found, whole := int64(0), false, true
		for _, c := range m.Containers {
			if container != "" && c.Name != container {
				continue
			}
			q, ok := c.Usage[name]
			sum, found, whole = sum+q.MilliValue(), true, whole && ok
		}
		if container != "" && !found {
			return nil, fmt.Errorf("unable to get metrics for resource %s: failed to get container metrics: container %s not present in metrics for pod %s/%s", name, container, namespace, m.Name)
		}
		if found && whole {
			out[m.Name] = reading{value: sum, at: m.Timestamp.Time, window: m.Window.Duration}
		}
	}
	return out, nil
}

// custom is the version of the custom metrics API that its server prefers. Both
// that there are say what is read here alike.
func (s *source) custom(ctx context.Context) (string, error) {
	var group metav1.APIGroup
	if err := s.read(ctx, "/apis/"+customMetrics, nil, &group); err != nil {
		return "", fmt.Errorf("no custom metrics API (%s) registered: %w", customMetrics, err)
	}
	if v := group.PreferredVersion.GroupVersion; v != "" {
		return "/apis/" + v, nil
	}
	return "", fmt.Errorf("no custom metrics API (%s) registered", customMetrics)
}

func metricSelector(query url.Values, metric *autoscalingv2.MetricIdentifier, key string) error {
	selector, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return err
	}
	if metric.Selector != nil && !selector.Empty() {
		query.Set(key, selector.String())
	}
	return nil
}

// pods reads a metric of each pod.
func (s *source) pods(ctx context.Context, namespace string, selector labels.Selector, metric *autoscalingv2.MetricIdentifier) (readings, error) {
	fail := func(err error) (readings, error) {
		return nil, fmt.Errorf("unable to get metric %s: %w", metric.Name, err)
	}
	base, err := s.custom(ctx)
	if err != nil {
		return fail(err)
	}
	query := selecting("labelSelector", selector)
	if err := metricSelector(query, metric, "metricLabelSelector"); err != nil {
		return fail(err)
	}
	var list custommetrics.MetricValueList
	if err := s.read(ctx, base+"/namespaces/"+namespace+"/pods/*/"+metric.Name, query, &list); err != nil {
		return fail(fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err))
	}
	if len(list.Items) == 0 {
		return fail(errors.New("no metrics returned from custom metrics API"))
	}
	out := readings{}
	for _, m := range list.Items {
		window := reading{value: m.Value.MilliValue(), at: m.Timestamp.Time}
		if m.WindowSeconds != nil {
			window.window = seconds(*m.WindowSeconds)
		}
		out[m.DescribedObject.Name] = window
	}
	return out, nil
}

// object reads a metric of one object.
func (s *source) object(ctx context.Context, namespace string, of autoscalingv2.CrossVersionObjectReference, metric *autoscalingv2.MetricIdentifier) (int64, error) {
	fail := func(err error) (int64, error) {
		return 0, fmt.Errorf("unable to get metric %s: %s on %s %s: %w", metric.Name, of.Kind, namespace, of.Name, err)
	}
	base, err := s.custom(ctx)
	if err != nil {
		return fail(err)
	}
	var path string
	if of.Kind == "Namespace" && !strings.Contains(of.APIVersion, "/") {
		path = base + "/namespaces/" + of.Name + "/metrics/" + metric.Name
	} else {
		r, err := s.kinds.find(ctx, of.APIVersion, of.Kind)
		if err != nil {
			return fail(err)
		}
		if path = base; r.Namespaced {
			path += "/namespaces/" + namespace
		}
		path += "/" + r.Resource.GroupResource().String() + "/" + of.Name + "/" + metric.Name
	}
	query := url.Values{}
	if err := metricSelector(query, metric, "metricLabelSelector"); err != nil {
		return fail(err)
	}
	var list custommetrics.MetricValueList
	if err := s.read(ctx, path, query, &list); err != nil {
		return fail(fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err))
	}
	if len(list.Items) == 0 {
		return fail(errors.New("no metrics returned from custom metrics API"))
	}
	return list.Items[0].Value.MilliValue(), nil
}

// external reads a metric of no object: the sum of all that match.
func (s *source) external(ctx context.Context, namespace string, metric *autoscalingv2.MetricIdentifier) (int64, error) {
	fail := func(err error) (int64, error) {
		return 0, fmt.Errorf("unable to get external metric %s/%s/%+v: %w", namespace, metric.Name, metric.Selector, err)
	}
	query := url.Values{}
	if err := metricSelector(query, metric, "labelSelector"); err != nil {
		return fail(err)
	}
	var list externalmetrics.ExternalMetricValueList
	path := "/apis/" + externalmetrics.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/" + metric.Name
	if err := s.read(ctx, path, query, &list); err != nil {
		return fail(fmt.Errorf("unable to fetch metrics from external metrics API: %w", err))
	}
	if len(list.Items) == 0 {
		return fail(errors.New("no metrics returned from external metrics API"))
	}
	var sum int64
	for _, m := range list.Items {
		sum += m.Value.MilliValue()
	}
	return sum, nil
}
