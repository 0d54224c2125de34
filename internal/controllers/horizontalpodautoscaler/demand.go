package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultTolerance is how far from its target a metric may be without anything
// being done.
const defaultTolerance = 0.1

// demand computes how many replicas metrics ask for.
type demand struct {
	pods     []*corev1.Pod
	current  int32 // that the scale asks for
	observed int32 // that its status tells
	now      time.Time
	up, down float64 // tolerances
}

func (w *world) demand() *demand {
	d := &demand{pods: w.pods, current: w.scale.Spec.Replicas, observed: w.scale.Status.Replicas, now: w.now, up: defaultTolerance, down: defaultTolerance}
	if b := w.hpa.Spec.Behavior; b != nil {
		if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
			d.up = b.ScaleUp.Tolerance.AsApproximateFloat64()
		}
		if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
			d.down = b.ScaleDown.Tolerance.AsApproximateFloat64()
		}
	}
	return d
}

// tolerates tells whether a ratio of usage to target is as good as 1.
func (d *demand) tolerates(ratio float64) bool { return ratio >= 1-d.down && ratio <= 1+d.up }

// proposal is what one metric asks for.
type proposal struct {
	replicas int32
	name     string
	status   autoscalingv2.MetricStatus
}

// failure says why a metric cannot be told.
type failure struct {
	reason string // of the condition
	what   string // "cpu resource"
	err    error
}

// metric is what a metric of the spec asks for.
func (d *demand) metric(spec *autoscalingv2.MetricSpec, m measured) (proposal, *failure) {
	p := proposal{status: autoscalingv2.MetricStatus{Type: spec.Type}}
	var err error
	switch spec.Type {
	case autoscalingv2.ResourceMetricSourceType:
		src := spec.Resource
		p.status.Resource = &autoscalingv2.ResourceMetricStatus{Name: src.Name}
		p.name, err = d.resource(&p, m, src.Name, "", &src.Target, &p.status.Resource.Current)
		if err != nil {
			return p, &failure{"FailedGetResourceMetric", string(src.Name) + " resource", err}
		}
	case autoscalingv2.ContainerResourceMetricSourceType:
		src := spec.ContainerResource
		p.status.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{Name: src.Name, Container: src.Container}
		p.name, err = d.resource(&p, m, src.Name, src.Container, &src.Target, &p.status.ContainerResource.Current)
		if err != nil {
			return p, &failure{"FailedGetContainerResourceMetric", string(src.Name) + " container", err}
		}
	case autoscalingv2.PodsMetricSourceType:
		src := spec.Pods
		average := int64(0)
		if err = m.err; err == nil {
			p.replicas, average, err = d.average(m.pods, "", src.Target.AverageValue.MilliValue())
		}
		if err != nil {
			return p, &failure{"FailedGetPodsMetric", "pods", err}
		}
		p.name = "pods metric " + src.Metric.Name
		p.status.Pods = &autoscalingv2.PodsMetricStatus{Metric: src.Metric, Current: autoscalingv2.MetricValueStatus{AverageValue: milli(average)}}
	case autoscalingv2.ObjectMetricSourceType:
		src := spec.Object
		p.status.Object = &autoscalingv2.ObjectMetricStatus{Metric: src.Metric, DescribedObject: src.DescribedObject}
		if err = m.err; err == nil {
			err = d.whole(&p, m.value, &src.Target, &p.status.Object.Current)
		}
		if err != nil {
			return p, &failure{"FailedGetObjectMetric", "object", err}
		}
		p.name = fmt.Sprintf("%s metric %s", src.DescribedObject.Kind, src.Metric.Name)
	case autoscalingv2.ExternalMetricSourceType:
		src := spec.External
		p.status.External = &autoscalingv2.ExternalMetricStatus{Metric: src.Metric}
		if err = m.err; err == nil {
			err = d.whole(&p, m.value, &src.Target, &p.status.External.Current)
		}
		if err != nil {
			return p, &failure{"FailedGetExternalMetric", src.Metric.Name + " external", err}
		}
		p.name = fmt.Sprintf("external metric %s(%+v)", src.Metric.Name, src.Metric.Selector)
	default:
		return p, &failure{"InvalidMetricSourceType", "unknown", fmt.Errorf("unknown metric source type %q", spec.Type)}
	}
	return p, nil
}

// resource asks by what pods, or one container of each, use of a resource.
func (d *demand) resource(p *proposal, m measured, name corev1.ResourceName, container string, target *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) (string, error) {
	kind := "resource"
	if container != "" {
		kind = "container resource"
	}
	if target.AverageUtilization == nil {
		if m.err != nil {
			return "", fmt.Errorf("failed to get %s usage: %w", name, m.err)
		}
		n, average, err := d.average(m.pods, name, target.AverageValue.MilliValue())
		if err != nil {
			return "", fmt.Errorf("failed to get %s usage: %w", name, err)
		}
		p.replicas, now.AverageValue = n, milli(average)
		return fmt.Sprintf("%s %s", name, kind), nil
	}
	if m.err != nil {
		return "", fmt.Errorf("failed to get %s utilization: %w", name, m.err)
	}
	n, use, average, err := d.utilization(m.pods, name, container, *target.AverageUtilization)
	if err != nil {
		return "", fmt.Errorf("failed to get %s utilization: %w", name, err)
	}
	p.replicas, now.AverageUtilization, now.AverageValue = n, &use, milli(average)
	return fmt.Sprintf("%s %s utilization (percentage of request)", name, kind), nil
}

// whole asks by one value that describes all pods together.
func (d *demand) whole(p *proposal, value int64, target *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) (err error) {
	if target.Type == autoscalingv2.AverageValueMetricType && target.AverageValue != nil {
		p.replicas, now.AverageValue = d.share(value, target.AverageValue.MilliValue())
		return nil
	}
	if target.Value == nil {
		return errors.New("invalid metric source: neither a value target nor an average value target was set")
	}
	now.Value = milli(value)
	p.replicas, err = d.ratio(float64(value) / float64(target.Value.MilliValue()))
	return err
}

// share asks for as many replicas as it takes for each to have target of value.
func (d *demand) share(value, target int64) (replicas int32, average *resource.Quantity) {
	replicas = d.observed
	if replicas == 0 || !d.tolerates(float64(value)/(float64(target)*float64(replicas))) {
		replicas = clamp(math.Ceil(float64(value) / float64(target)))
	}
	if d.observed == 0 {
		return replicas, milli(0)
	}
	return replicas, milli(int64(math.Ceil(float64(value) / float64(d.observed))))
}

// ratio asks for so many times the ready pods.
func (d *demand) ratio(ratio float64) (int32, error) {
	switch {
	case d.current == 0: // from nothing, the ratio itself is the number
		return clamp(math.Ceil(ratio)), nil
	case d.tolerates(ratio):
		return d.current, nil
	case len(d.pods) == 0:
		return 0, errors.New("unable to calculate ready pods: no pods returned by selector while calculating ready pods")
	}
	ready := 0
	for _, pod := range d.pods {
		if pod.Status.Phase == corev1.PodRunning && isReady(pod) {
			ready++
		}
	}
	return clamp(math.Ceil(ratio * float64(ready))), nil
}

func milli(v int64) *resource.Quantity { return resource.NewMilliQuantity(v, resource.DecimalSI) }
