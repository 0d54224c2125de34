package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// What is measured of a young pod tells little of it.
// https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details
const (
	// initialization is how long the CPU of a pod counts only while it is ready
	// and was measured since it is.
	initialization = 5 * time.Minute
	// readiness is how soon after its start a pod must turn ready for its being
	// not ready to be a phase of its start.
	readiness = 30 * time.Second
)

// reading is what was measured of one pod.
type reading struct {
	value  int64 // in thousandths
	at     time.Time
	window time.Duration
}

// readings are by pod.
type readings map[string]reading

// groups are the pods, by what may be made of them.
type groups struct {
	ready    int
	measured map[string]int64 // those that count, and what they use
	unready  []string
	missing  []string // not measured
}

// group sorts the pods. Those that end or have failed are nobody's concern.
func (d *demand) group(r readings, resource corev1.ResourceName) groups {
	g := groups{measured: make(map[string]int64, len(r))}
	for _, pod := range d.pods {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if pod.Status.Phase == corev1.PodPending {
			g.unready = append(g.unready, pod.Name)
			continue
		}
		m, ok := r[pod.Name]
		switch {
		case !ok:
			g.missing = append(g.missing, pod.Name)
		case resource == corev1.ResourceCPU && d.warmsUp(pod, m):
			g.unready = append(g.unready, pod.Name)
		default:
			g.ready++
			g.measured[pod.Name] = m.value
		}
	}
	return g
}

// warmsUp tells whether the CPU of a pod is that of its start.
func (d *demand) warmsUp(pod *corev1.Pod, m reading) bool {
	var ready *corev1.PodCondition
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			ready = &pod.Status.Conditions[i]
		}
	}
	start := pod.Status.StartTime
	switch {
	case ready == nil || start == nil:
		return true
	case start.Add(initialization).After(d.now):
		return ready.Status == corev1.ConditionFalse || m.at.Before(ready.LastTransitionTime.Add(m.window))
	}
	return ready.Status == corev1.ConditionFalse && start.Add(readiness).After(ready.LastTransitionTime.Time)
}

func isReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

var (
	errNoPods  = errors.New("no pods returned by selector while calculating replica count")
	errNoneFit = errors.New("did not receive metrics for targeted pods (pods might be unready)")
)

// utilization asks by the part of their requests that pods use, in percent.
func (d *demand) utilization(r readings, resource corev1.ResourceName, container string, target int32) (replicas, use int32, average int64, err error) {
	if len(d.pods) == 0 {
		return 0, 0, 0, errNoPods
	}
	g := d.group(r, resource)
	if len(g.measured) == 0 {
		return 0, 0, 0, errNoneFit
	}
	requests := make(map[string]int64, len(d.pods))
	for _, pod := range d.pods {
		if requests[pod.Name], err = request(pod, resource, container); err != nil {
			return 0, 0, 0, err
		}
	}
	ratio := func(values map[string]int64) (float64, error) {
		var used, asked int64
		for name, v := range values {
			used, asked = used+v, asked+requests[name]
		}
		if asked == 0 {
			return 0, errors.New("no metrics returned matched known pods")
		}
		use, average = int32(used*100/asked), used/int64(len(values))
		return float64(use) / float64(target), nil
	}
	first, err := ratio(g.measured)
	if err != nil {
		return 0, 0, 0, err
	}
	shownUse, shownAverage := use, average
	replicas, err = d.weigh(g, first, ratio, func(name string) int64 { return requests[name] * int64(max(100, target)) / 100 })
	return replicas, shownUse, shownAverage, err
}

// average asks by what a pod uses on the average. resource is "" for metrics
// that are no resource's.
func (d *demand) average(r readings, resource corev1.ResourceName, target int64) (replicas int32, average int64, err error) {
	if len(d.pods) == 0 {
		return 0, 0, errNoPods
	}
	g := d.group(r, resource)
	if len(g.measured) == 0 {
		return 0, 0, errNoneFit
	}
	ratio := func(values map[string]int64) (float64, error) {
		var sum int64
		for _, v := range values {
			sum += v
		}
		average = sum / int64(len(values))
		return float64(average) / float64(target), nil
	}
	first, _ := ratio(g.measured)
	shown := average
	replicas, err = d.weigh(g, first, ratio, func(string) int64 { return target })
	return replicas, shown, err
}

// weigh makes a number of a ratio. Pods that are not ready, or of which nothing
// is known, damp what is done: on the way up they are taken to use nothing, on
// the way down to use as much as they should. They never turn it around.
func (d *demand) weigh(g groups, first float64, ratio func(map[string]int64) (float64, error), enough func(pod string) int64) (int32, error) {
	damped := len(g.unready) > 0 && first > 1
	if !damped && len(g.missing) == 0 {
		if d.tolerates(first) {
			return d.current, nil
		}
		return clamp(math.Ceil(first * float64(g.ready))), nil
	}
	for _, name := range g.missing {
		switch {
		case first < 1:
			g.measured[name] = enough(name)
		case first > 1:
			g.measured[name] = 0
		}
	}
	if damped {
		for _, name := range g.unready {
			g.measured[name] = 0
		}
	}
	then, err := ratio(g.measured)
	if err != nil {
		return 0, err
	}
	if d.tolerates(then) || first < 1 && then > 1 || first > 1 && then < 1 {
		return d.current, nil
	}
	n := clamp(math.Ceil(then * float64(len(g.measured))))
	if then < 1 && n > d.current || then > 1 && n < d.current {
		return d.current, nil
	}
	return n, nil
}

// request is what a pod, or one of its containers, asks for of a resource.
func request(pod *corev1.Pod, resource corev1.ResourceName, container string) (sum int64, err error) {
	if container == "" && pod.Spec.Resources != nil {
		if q, ok := pod.Spec.Resources.Requests[resource]; ok {
			return q.MilliValue(), nil
		}
	}
	add := func(c *corev1.Container) error {
		if container != "" && c.Name != container {
			return nil
		}
		q, ok := c.Resources.Requests[resource]
		if !ok {
			return fmt.Errorf("missing request for %s in container %s of Pod %s", resource, c.Name, pod.Name)
		}
		sum += q.MilliValue()
		return nil
	}
	for i := range pod.Spec.Containers {
		if err := add(&pod.Spec.Containers[i]); err != nil {
			return 0, err
		}
	}
	for i := range pod.Spec.InitContainers { // those that stay
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			if err := add(c); err != nil {
				return 0, err
			}
		}
	}
	return sum, nil
}
