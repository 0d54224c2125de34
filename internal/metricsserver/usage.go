package metricsserver

import (
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/nodestats"
)

// youngest is how long a container must have run for its usage to be taken
// from its start on: starts are told in whole seconds.
const youngest = 10 * time.Second

// usage is what was used from one point to the next. ok is false when that
// cannot be told: there is one point only, of a container that is too young.
func usage(before, now nodestats.Point) (list corev1.ResourceList, window time.Duration, ok bool) {
	// A container that was started again counts from zero.
	if before.At.IsZero() || now.CPU < before.CPU || now.Start.After(before.At) {
		if now.Start.IsZero() || now.At.Sub(now.Start) < youngest {
			return nil, 0, false
		}
		before = nodestats.Point{At: now.Start}
	}
	if window = now.At.Sub(before.At); window <= 0 {
		return nil, 0, false
	}
	cores := (now.CPU - before.CPU) / window.Seconds()
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(math.Round(cores*1e9)), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(int64(now.Memory), resource.BinarySI),
	}, window, true
}

func (s *Server) nodes(ctx context.Context, nodes []*corev1.Node) (out []metricsv1beta1.NodeMetrics) {
	samples := s.sampler.want(ctx, nodes)
	for _, n := range nodes {
		p, ok := samples[n.Name]
		if !ok {
			continue
		}
		if use, window, ok := usage(p.before.Node, p.now.Node); ok {
			out = append(out, metricsv1beta1.NodeMetrics{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, CreationTimestamp: metav1.Now()},
				Timestamp: metav1.NewTime(p.now.Node.At), Window: metav1.Duration{Duration: window}, Usage: use})
		}
	}
	return out
}

func (s *Server) pods(ctx context.Context, pods []*corev1.Pod) (out []metricsv1beta1.PodMetrics) {
	seen := map[string]bool{}
	var nodes []*corev1.Node
	for _, p := range pods {
		if name := p.Spec.NodeName; runs(p) && !seen[name] {
			seen[name] = true
			if n := client.In[*corev1.Node](s.cfg.Nodes, "", name); n != nil {
				nodes = append(nodes, n)
			}
		}
	}
	samples := s.sampler.want(ctx, nodes)
	for _, p := range pods {
		if pair, ok := samples[p.Spec.NodeName]; ok && runs(p) {
			if m, ok := podMetrics(p, pair); ok {
				out = append(out, m)
			}
		}
	}
	return out
}

func runs(p *corev1.Pod) bool { return p.Spec.NodeName != "" && p.Status.Phase == corev1.PodRunning }

func podMetrics(p *corev1.Pod, pair pair) (out metricsv1beta1.PodMetrics, ok bool) {
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	now, before := pair.now.Pods[key], pair.before.Pods[key]
	out.ObjectMeta = metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, CreationTimestamp: metav1.Now()}
	for _, name := range containers(p) {
		point, measured := now[name]
		if !measured {
			continue // it does not run
		}
		if p.CreationTimestamp.After(before[name].At) {
			before = nil // that of another pod with this name
		}
		use, window, ok := usage(before[name], point)
		if !ok {
			return out, false
		}
		// The oldest time and its window stand for the whole.
		if out.Timestamp.IsZero() || point.At.Before(out.Timestamp.Time) {
			out.Timestamp, out.Window = metav1.NewTime(point.At), metav1.Duration{Duration: window}
		}
		out.Containers = append(out.Containers, metricsv1beta1.ContainerMetrics{Name: name, Usage: use})
	}
	return out, len(out.Containers) > 0
}

// containers are the names of all that may run in a pod.
func containers(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.InitContainers {
		out = append(out, p.Spec.InitContainers[i].Name)
	}
	for i := range p.Spec.Containers {
		out = append(out, p.Spec.Containers[i].Name)
	}
	for i := range p.Spec.EphemeralContainers {
		out = append(out, p.Spec.EphemeralContainers[i].Name)
	}
	return out
}
