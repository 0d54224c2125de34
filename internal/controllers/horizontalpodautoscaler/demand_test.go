package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// crowd makes pods of a short text: a letter for each, and readings for those
// that have some. All request 100m, and are an hour old.
//
//	r ready, uses as much as it should below; n not ready, measured
//	m ready, not measured; p pending; d being deleted; f failed
//	y ready for 10 s, measured for 15 s; a alive for a minute and not ready
func crowd(text string, use int64) (pods []*corev1.Pod, r readings) {
	r = readings{}
	for i, kind := range text {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}}
		started, turned, ready := now.Add(-time.Hour), now.Add(-59*time.Minute), corev1.ConditionTrue
		pod.Status.Phase = corev1.PodRunning
		measured := true
		switch kind {
		case 'n':
			ready, turned = corev1.ConditionFalse, started // never was ready
		case 'm':
			measured = false
		case 'p':
			pod.Status.Phase, measured = corev1.PodPending, false
		case 'd':
			pod.DeletionTimestamp = &metav1.Time{Time: now}
		case 'f':
			pod.Status.Phase = corev1.PodFailed
		case 'y':
			started, turned = now.Add(-time.Minute), now.Add(-10*time.Second)
		case 'a':
			started, ready = now.Add(-time.Minute), corev1.ConditionFalse
		}
		pod.Status.StartTime = &metav1.Time{Time: started}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(turned)}}
		if measured {
			r[pod.Name] = reading{value: use, at: now, window: 15 * time.Second}
		}
		pods = append(pods, pod)
	}
	return pods, r
}

func demandOf(pods []*corev1.Pod, current int32) *demand {
	return &demand{pods: pods, current: current, observed: current, now: now, up: defaultTolerance, down: defaultTolerance}
}

// Pods request 100m and should use the half of it.
func TestUtilization(t *testing.T) {
	for _, tc := range []struct {
		pods    string
		use     int64 // of each, in thousandths of a core
		current int32
		want    string
	}{
		{"rrr", 50, 3, "3 at 50%"},
		{"rrr", 54, 3, "3 at 54%"}, // within the tolerance
		{"rrr", 56, 3, "4 at 56%"},
		{"rrr", 46, 3, "3 at 46%"},
		{"rrr", 30, 3, "2 at 30%"},
		{"rrr", 0, 3, "0 at 0%"},
		{"rrr", 500, 3, "30 at 500%"},
		// On the way up, those not ready or not known are taken for idle ...
		{"rrn", 100, 3, "4 at 100%"},
		{"rrp", 60, 3, "3 at 60%"}, // 120m of 300m: less than it should be, so nothing is done
		{"rrm", 100, 3, "4 at 100%"},
		{"rry", 100, 3, "4 at 100%"},
		{"rra", 100, 3, "4 at 100%"},
		// ... on the way down, those not known for using all they request, and
		// those not ready do not count.
		{"rrm", 10, 3, "3 at 10%"}, // 120m of 300m: 40%
		{"rrrrm", 10, 5, "3 at 10%"},
		{"rrn", 10, 3, "1 at 10%"},
		{"rrp", 10, 3, "1 at 10%"},
		// Who ends or has failed is nobody's concern.
		{"rrd", 100, 2, "4 at 100%"},
		{"rrf", 100, 2, "4 at 100%"},
		{"nn", 100, 2, "did not receive metrics for targeted pods (pods might be unready)"},
		{"mm", 0, 2, "did not receive metrics for targeted pods (pods might be unready)"},
		{"", 0, 2, "no pods returned by selector while calculating replica count"},
	} {
		pods, r := crowd(tc.pods, tc.use)
		n, use, _, err := demandOf(pods, tc.current).utilization(r, corev1.ResourceCPU, "", 50)
		got := fmt.Sprintf("%d at %d%%", n, use)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%q of which each uses %dm: %s, want %s", tc.pods, tc.use, got, tc.want)
		}
	}
}

// A metric that is no CPU counts for pods that are not ready as well; targets
// are 50.
func TestAverage(t *testing.T) {
	for _, tc := range []struct {
		pods    string
		use     int64
		current int32
		want    string
	}{
		{"rrr", 50, 3, "3 at 50"},
		{"rrr", 100, 3, "6 at 100"},
		{"rrn", 100, 3, "6 at 100"},
		{"rrp", 100, 3, "4 at 100"},
		{"rrm", 100, 3, "4 at 100"},
		{"rrm", 10, 3, "2 at 10"}, // 70 of 150: 1.4 pods
		{"rrrr", 10, 4, "1 at 10"},
	} {
		pods, r := crowd(tc.pods, tc.use)
		n, average, err := demandOf(pods, tc.current).average(r, "", 50)
		if got := fmt.Sprintf("%d at %d", n, average); err != nil || got != tc.want {
			t.Errorf("%q of which each has %d: %s, %v, want %s", tc.pods, tc.use, got, err, tc.want)
		}
	}
}

func TestWhole(t *testing.T) {
	value := func(v string) *autoscalingv2.MetricTarget {
		return &autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: new(resource.MustParse(v))}
	}
	average := func(v string) *autoscalingv2.MetricTarget {
		return &autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse(v))}
	}
	for _, tc := range []struct {
		pods    string
		value   string
		target  *autoscalingv2.MetricTarget
		current int32
		want    string
	}{
		{"rrr", "100", value("50"), 3, "6 100 -"},
		{"rrr", "52", value("50"), 3, "3 52 -"},
		{"rrn", "100", value("50"), 3, "4 100 -"}, // as many as are ready count
		{"rrr", "10", value("50"), 3, "1 10 -"},
		{"", "120", value("50"), 0, "3 120 -"}, // from zero
		{"", "0", value("50"), 0, "0 0 -"},
		{"", "120", value("50"), 3, "unable to calculate ready pods: no pods returned by selector while calculating ready pods"},
		{"rrr", "100", average("20"), 3, "5 - 33334m"},
		{"rrr", "62", average("20"), 3, "3 - 20667m"},
		{"rrr", "0", average("20"), 3, "0 - 0"},
		{"", "100", average("20"), 0, "5 - 0"},
		{"rrr", "100", &autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType}, 3, "invalid metric source: neither a value target nor an average value target was set"},
	} {
		pods, _ := crowd(tc.pods, 0)
		p, status := proposal{}, autoscalingv2.MetricValueStatus{}
		q := resource.MustParse(tc.value)
		err := demandOf(pods, tc.current).whole(&p, q.MilliValue(), tc.target, &status)
		text := func(q *resource.Quantity) string {
			if q == nil {
				return "-"
			}
			return q.String()
		}
		got := fmt.Sprintf("%d %s %s", p.replicas, text(status.Value), text(status.AverageValue))
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%q, %s of %+v: %s, want %s", tc.pods, tc.value, tc.target, got, tc.want)
		}
	}
}

func TestTolerances(t *testing.T) {
	pods, r := crowd("rrrr", 60)
	d := demandOf(pods, 4)
	d.up = 0.25
	if n, _, _, _ := d.utilization(r, corev1.ResourceCPU, "", 50); n != 4 {
		t.Errorf("a fifth more is tolerated, and %d asked for", n)
	}
	d.up = 0
	if n, _, _, _ := d.utilization(r, corev1.ResourceCPU, "", 50); n != 5 {
		t.Errorf("a fifth more is not tolerated, and %d asked for", n)
	}
	pods, r = crowd("rrrr", 35)
	d = demandOf(pods, 4)
	d.down = 0.5
	if n, _, _, _ := d.utilization(r, corev1.ResourceCPU, "", 50); n != 4 {
		t.Errorf("a third less is tolerated, and %d asked for", n)
	}
}

func TestRequests(t *testing.T) {
	cpu := func(v string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(v)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init", Resources: cpu("5")}, {Name: "sidecar", RestartPolicy: &always, Resources: cpu("50m")}},
		Containers:     []corev1.Container{{Name: "app", Resources: cpu("200m")}, {Name: "plain"}},
	}}
	if _, err := request(pod, corev1.ResourceCPU, ""); err == nil || err.Error() != "missing request for cpu in container plain of Pod web" {
		t.Errorf("a container requests nothing: %v", err)
	}
	if n, err := request(pod, corev1.ResourceCPU, "app"); n != 200 || err != nil {
		t.Errorf("app requests %d, %v", n, err)
	}
	if n, err := request(pod, corev1.ResourceCPU, "sidecar"); n != 50 || err != nil {
		t.Errorf("sidecar requests %d, %v", n, err)
	}
	pod.Spec.Containers[1].Resources = cpu("1m")
	if n, err := request(pod, corev1.ResourceCPU, ""); n != 251 || err != nil {
		t.Errorf("the pod requests %d, %v", n, err)
	}
	pod.Spec.Resources = new(cpu("1"))
	if n, err := request(pod, corev1.ResourceCPU, ""); n != 1000 || err != nil {
		t.Errorf("the pod as a whole requests %d, %v", n, err)
	}
}

// What people are told of each kind of metric.
func TestMetrics(t *testing.T) {
	pods, r := crowd("rr", 100)
	d := demandOf(pods, 2)
	half := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))}
	each := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("50m"))}
	all := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: new(resource.MustParse("100m"))}
	id := autoscalingv2.MetricIdentifier{Name: "qps"}
	for _, tc := range []struct {
		spec       autoscalingv2.MetricSpec
		name, fail string
		reason     string
	}{
		{autoscalingv2.MetricSpec{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: half}},
			"cpu resource utilization (percentage of request)", "cpu resource: failed to get cpu utilization: away", "FailedGetResourceMetric"},
		{autoscalingv2.MetricSpec{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: each}},
			"cpu resource", "cpu resource: failed to get cpu usage: away", "FailedGetResourceMetric"},
		{autoscalingv2.MetricSpec{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "cpu", Container: "c", Target: half}},
			"cpu container resource utilization (percentage of request)", "cpu container: failed to get cpu utilization: away", "FailedGetContainerResourceMetric"},
		{autoscalingv2.MetricSpec{Type: "Pods", Pods: &autoscalingv2.PodsMetricSource{Metric: id, Target: each}},
			"pods metric qps", "pods: away", "FailedGetPodsMetric"},
		{autoscalingv2.MetricSpec{Type: "Object", Object: &autoscalingv2.ObjectMetricSource{Metric: id, Target: all, DescribedObject: autoscalingv2.CrossVersionObjectReference{Kind: "Service", Name: "s"}}},
			"Service metric qps", "object: away", "FailedGetObjectMetric"},
		{autoscalingv2.MetricSpec{Type: "External", External: &autoscalingv2.ExternalMetricSource{Metric: id, Target: all}},
			"external metric qps(nil)", "qps external: away", "FailedGetExternalMetric"},
	} {
		p, bad := d.metric(&tc.spec, measured{pods: r, value: 200})
		if bad != nil || p.replicas != 4 || p.name != tc.name || p.status.Type != tc.spec.Type {
			t.Errorf("%s: %+v, %+v; want %s", tc.spec.Type, p, bad, tc.name)
		}
		if _, bad = d.metric(&tc.spec, measured{err: errors.New("away")}); bad == nil || bad.what+": "+bad.err.Error() != tc.fail || bad.reason != tc.reason {
			t.Errorf("%s fails with %+v, want %s", tc.spec.Type, bad, tc.fail)
		}
	}
	if _, bad := d.metric(&autoscalingv2.MetricSpec{Type: "Odd"}, measured{}); bad == nil || !strings.Contains(bad.err.Error(), `"Odd"`) {
		t.Errorf("an odd metric: %+v", bad)
	}
}
