package simnode

import (
	"context"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/nodestats"
)

// The annotations of pods that say what they use. Without them it is nothing.
const (
	// CPU and Memory are what a pod uses, in all (its containers use it
	// evenly) or container by container: "250m", "app=200m,proxy=50m".
	CPU    = "setpoint.dev/sim-cpu"
	Memory = "setpoint.dev/sim-memory"
	// Load is how many CPUs all ready pods with one controller use together:
	// the more they are, the less each. It comes on top of CPU.
	Load = "setpoint.dev/sim-load"
)

// simulated marks simulated nodes.
const simulated = "setpoint.dev/simulated"

// Kubelets answer in place of the kubelets of simulated nodes: health and
// statistics, by the annotations of the pods. They need not be in the process
// that runs the nodes, and measure only while somebody asks.
type Kubelets struct {
	pods client.View

	mu    sync.Mutex
	spent map[string]map[types.UID]map[string]*meter // guarded by mu; by node, pod and container
}

// meter counts the CPU time of a container.
type meter struct {
	at   time.Time // up to when
	used uint64    // core-nanoseconds
}

// NewKubelets answer about the pods in a view of all of them.
func NewKubelets(pods client.View) *Kubelets {
	client.IndexByNode(pods)
	pods.Index(byController, controllerOf)
	return &Kubelets{pods: pods, spent: map[string]map[types.UID]map[string]*meter{}}
}

const byController = "simnode.controller"

func controllerOf(obj client.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

// Simulated tells whether a node is a simulated one.
func Simulated(node *corev1.Node) bool { return node.Labels[simulated] == "true" }

// Of is who answers for a node; nil when it is no simulated one.
func (k *Kubelets) Of(node *corev1.Node) http.Handler {
	if !Simulated(node) {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.Handle("/", nodestats.Handler(func(context.Context, bool) (*statsv1alpha1.Summary, error) { return k.summary(node, time.Now()), nil }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if silent(node) {
			http.Error(w, "the node is silent by its annotation "+Silent, http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// summary measures the pods that run on a node.
func (k *Kubelets) summary(node *corev1.Node, now time.Time) *statsv1alpha1.Summary {
	k.mu.Lock()
	defer k.mu.Unlock()
	had, next := k.spent[node.Name], map[types.UID]map[string]*meter{}
	out := &statsv1alpha1.Summary{Pods: []statsv1alpha1.PodStats{}}
	out.Node.NodeName, out.Node.StartTime = node.Name, node.CreationTimestamp
	var cpu, memory uint64
	for _, pod := range client.Indexed[*corev1.Pod](k.pods, client.ByNode, node.Name) {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		start := startedAt(pod)
		p := statsv1alpha1.PodStats{PodRef: statsv1alpha1.PodReference{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}}
		if pod.Status.StartTime != nil {
			p.StartTime = *pod.Status.StartTime
		}
		meters := map[string]*meter{}
		var podCPU, podMemory uint64
		for name, use := range k.uses(pod) {
			m := had[pod.UID][name]
			if m == nil || m.at.Before(start) {
				m = &meter{at: start}
			}
			if now.After(m.at) {
				m.used += uint64(use.cores * float64(now.Sub(m.at)))
				m.at = now
			}
			meters[name] = m
			used := m.used
			p.Containers = append(p.Containers, statsv1alpha1.ContainerStats{Name: name, StartTime: metav1.NewTime(start), CPU: cpuAt(now, used, use.cores), Memory: memoryAt(now, use.memory)})
			podCPU, podMemory = podCPU+used, podMemory+use.memory
		}
		sort.Slice(p.Containers, func(i, j int) bool { return p.Containers[i].Name < p.Containers[j].Name })
		next[pod.UID] = meters
		p.CPU, p.Memory = cpuAt(now, podCPU, 0), memoryAt(now, podMemory)
		p.CPU.UsageNanoCores = sumCores(p.Containers)
		out.Pods = append(out.Pods, p)
		cpu, memory = cpu+podCPU, memory+podMemory
	}
	sort.Slice(out.Pods, func(i, j int) bool {
		a, b := &out.Pods[i].PodRef, &out.Pods[j].PodRef
		return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
	})
	if len(next) > 0 {
		k.spent[node.Name] = next
	} else {
		delete(k.spent, node.Name)
	}
	out.Node.CPU, out.Node.Memory = cpuAt(now, cpu, 0), memoryAt(now, memory)
	var cores uint64
	for i := range out.Pods {
		cores += *out.Pods[i].CPU.UsageNanoCores
	}
	out.Node.CPU.UsageNanoCores = &cores
	if total, free := node.Status.Capacity.Memory().Value(), uint64(0); total > int64(memory) {
		free = uint64(total) - memory
		out.Node.Memory.AvailableBytes = &free
	}
	return out
}

func cpuAt(now time.Time, used uint64, cores float64) *statsv1alpha1.CPUStats {
	nano := uint64(cores * 1e9)
	return &statsv1alpha1.CPUStats{Time: metav1.NewTime(now), UsageCoreNanoSeconds: &used, UsageNanoCores: &nano}
}

func memoryAt(now time.Time, n uint64) *statsv1alpha1.MemoryStats {
	return &statsv1alpha1.MemoryStats{Time: metav1.NewTime(now), WorkingSetBytes: &n, UsageBytes: &n}
}

func sumCores(cs []statsv1alpha1.ContainerStats) *uint64 {
	var sum uint64
	for i := range cs {
		sum += *cs[i].CPU.UsageNanoCores
	}
	return &sum
}

// use is what a container uses now.
type use struct {
	cores  float64
	memory uint64 // bytes
}

// uses reads the annotations of a pod.
func (k *Kubelets) uses(pod *corev1.Pod) map[string]use {
	out := make(map[string]use, len(pod.Spec.Containers))
	cpu, memory := shares(pod, pod.Annotations[CPU]), shares(pod, pod.Annotations[Memory])
	load := 0.0
	if q, err := resource.ParseQuantity(pod.Annotations[Load]); err == nil && ready(pod) {
		load = q.AsApproximateFloat64() / float64(k.peers(pod)) / float64(len(pod.Spec.Containers))
	}
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		out[name] = use{cores: max(0, cpu[name]+load), memory: uint64(max(0, memory[name]))}
	}
	return out
}

// peers is how many ready pods share the load of this one, itself included.
func (k *Kubelets) peers(pod *corev1.Pod) (n int) {
	for _, uid := range controllerOf(pod) {
		for _, p := range client.Indexed[*corev1.Pod](k.pods, byController, uid) {
			if p.DeletionTimestamp == nil && p.Annotations[Load] != "" && ready(p) {
				n++
			}
		}
	}
	return max(1, n)
}

func ready(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// shares reads what each container of a pod uses. What cannot be read is
// nothing.
func shares(pod *corev1.Pod, text string) map[string]float64 {
	out := map[string]float64{}
	if q, err := resource.ParseQuantity(text); err == nil {
		for i := range pod.Spec.Containers {
			out[pod.Spec.Containers[i].Name] = q.AsApproximateFloat64() / float64(len(pod.Spec.Containers))
		}
		return out
	}
	for part := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(strings.TrimSpace(part), "=")
		if q, err := resource.ParseQuantity(amount); err == nil {
			out[name] = q.AsApproximateFloat64()
		}
	}
	return out
}
