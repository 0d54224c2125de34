package nodestats

import (
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// The names that Read looks for.
const (
	containerCPU    = "container_cpu_usage_seconds_total"
	containerMemory = "container_memory_working_set_bytes"
	containerStart  = "container_start_time_seconds"
	nodeCPU         = "node_cpu_usage_seconds_total"
	nodeMemory      = "node_memory_working_set_bytes"
)

// resource writes /metrics/resource. The order is that of the names.
func resource(b *builder, s *statsv1alpha1.Summary) {
	each := func(f func(labels string, c *statsv1alpha1.ContainerStats)) {
		for i := range s.Pods {
			p := &s.Pods[i]
			for j := range p.Containers {
				c := &p.Containers[j]
				f(labels("container", c.Name, "namespace", p.PodRef.Namespace, "pod", p.PodRef.Name), c)
			}
		}
	}
	b.family(containerCPU, "counter", "[STABLE] Cumulative cpu time consumed by the container in core-seconds")
	each(func(l string, c *statsv1alpha1.ContainerStats) { b.cpu(containerCPU, l, c.CPU) })
	b.family(containerMemory, "gauge", "[STABLE] Current working set of the container in bytes")
	each(func(l string, c *statsv1alpha1.ContainerStats) { b.memory(containerMemory, l, c.Memory) })
	b.family(containerStart, "gauge", "[STABLE] Start time of the container since unix epoch in seconds")
	each(func(l string, c *statsv1alpha1.ContainerStats) {
		if !c.StartTime.IsZero() {
			b.sample(containerStart, l, float64(c.StartTime.UnixNano())/1e9, metav1.Time{})
		}
	})
	const containerSwap, nodeSwap, podSwap = "container_swap_usage_bytes", "node_swap_usage_bytes", "pod_swap_usage_bytes"
	b.family(containerSwap, "gauge", "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems")
	each(func(l string, c *statsv1alpha1.ContainerStats) { b.swap(containerSwap, l, c.Swap) })
	b.family(nodeCPU, "counter", "[STABLE] Cumulative cpu time consumed by the node in core-seconds")
	b.cpu(nodeCPU, "", s.Node.CPU)
	b.family(nodeMemory, "gauge", "[STABLE] Current working set of the node in bytes")
	b.memory(nodeMemory, "", s.Node.Memory)
	b.family(nodeSwap, "gauge", "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems")
	b.swap(nodeSwap, "", s.Node.Swap)
	const podCPU, podMemory = "pod_cpu_usage_seconds_total", "pod_memory_working_set_bytes"
	pods := func(f func(labels string, p *statsv1alpha1.PodStats)) {
		for i := range s.Pods {
			f(labels("namespace", s.Pods[i].PodRef.Namespace, "pod", s.Pods[i].PodRef.Name), &s.Pods[i])
		}
	}
	b.family(podCPU, "counter", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds")
	pods(func(l string, p *statsv1alpha1.PodStats) { b.cpu(podCPU, l, p.CPU) })
	b.family(podMemory, "gauge", "[STABLE] Current working set of the pod in bytes")
	pods(func(l string, p *statsv1alpha1.PodStats) { b.memory(podMemory, l, p.Memory) })
	b.family(podSwap, "gauge", "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems")
	pods(func(l string, p *statsv1alpha1.PodStats) { b.swap(podSwap, l, p.Swap) })
	b.family("resource_scrape_error", "gauge", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise")
	b.sample("resource_scrape_error", "", 0, metav1.Time{})
}

// cadvisor writes /metrics/cadvisor: what of it a Summary knows. A pod as a
// whole has no container's name.
func cadvisor(b *builder, s *statsv1alpha1.Summary) {
	type row struct {
		labels string
		cpu    *statsv1alpha1.CPUStats
		memory *statsv1alpha1.MemoryStats
		start  metav1.Time
	}
	rows := []row{{labels("container", "", "id", "/", "namespace", "", "pod", ""), s.Node.CPU, s.Node.Memory, s.Node.StartTime}}
	for i := range s.Pods {
		p := &s.Pods[i]
		of := func(container string) string {
			id := "/kubepods/pod" + p.PodRef.UID
			if container != "" {
				id += "/" + container
			}
			return labels("container", container, "id", id, "namespace", p.PodRef.Namespace, "pod", p.PodRef.Name)
		}
		rows = append(rows, row{of(""), p.CPU, p.Memory, p.StartTime})
		for j := range p.Containers {
			c := &p.Containers[j]
			rows = append(rows, row{of(c.Name), c.CPU, c.Memory, c.StartTime})
		}
	}
	b.family(containerCPU, "counter", "Cumulative cpu time consumed in seconds.")
	for _, r := range rows {
		b.cpu(containerCPU, strings.TrimSuffix(r.labels, "}")+`,cpu="total"}`, r.cpu)
	}
	for _, f := range []struct {
		name, kind, help string
		of               func(*statsv1alpha1.MemoryStats) *uint64
	}{
		{"container_memory_failures_total", "counter", "Cumulative count of memory allocation failures.", func(m *statsv1alpha1.MemoryStats) *uint64 { return m.MajorPageFaults }},
		{"container_memory_rss", "gauge", "Size of RSS in bytes.", func(m *statsv1alpha1.MemoryStats) *uint64 { return m.RSSBytes }},
		{"container_memory_usage_bytes", "gauge", "Current memory usage in bytes, including all memory regardless of when it was accessed", func(m *statsv1alpha1.MemoryStats) *uint64 { return m.UsageBytes }},
		{containerMemory, "gauge", "Current working set in bytes.", func(m *statsv1alpha1.MemoryStats) *uint64 { return m.WorkingSetBytes }},
	} {
		b.family(f.name, f.kind, f.help)
		for _, r := range rows {
			l := r.labels
			if f.kind == "counter" {
				l = strings.TrimSuffix(l, "}") + `,failure_type="pgmajfault",scope="container"}`
			}
			if r.memory != nil {
				if n := f.of(r.memory); n != nil {
					b.sample(f.name, l, float64(*n), r.memory.Time)
				}
			}
		}
	}
	b.family(containerStart, "gauge", "Start time of the container since unix epoch in seconds.")
	for _, r := range rows {
		if !r.start.IsZero() {
			b.sample(containerStart, r.labels, float64(r.start.Unix()), metav1.Time{})
		}
	}
}

// builder writes Prometheus's text format.
type builder struct{ out []byte }

func (b *builder) family(name, kind, help string) {
	b.out = append(b.out, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

func (b *builder) sample(name, labels string, value float64, at metav1.Time) {
	b.out = append(b.out, name...)
	b.out = append(b.out, labels...)
	b.out = append(b.out, ' ')
	b.out = strconv.AppendFloat(b.out, value, 'g', -1, 64)
	if !at.IsZero() {
		b.out = append(b.out, ' ')
		b.out = strconv.AppendInt(b.out, at.UnixMilli(), 10)
	}
	b.out = append(b.out, '\n')
}

func (b *builder) cpu(name, labels string, c *statsv1alpha1.CPUStats) {
	if c != nil && c.UsageCoreNanoSeconds != nil {
		b.sample(name, labels, float64(*c.UsageCoreNanoSeconds)/float64(time.Second), c.Time)
	}
}

func (b *builder) memory(name, labels string, m *statsv1alpha1.MemoryStats) {
	if m != nil && m.WorkingSetBytes != nil {
		b.sample(name, labels, float64(*m.WorkingSetBytes), m.Time)
	}
}

func (b *builder) swap(name, labels string, s *statsv1alpha1.SwapStats) {
	if s != nil && s.SwapUsageBytes != nil {
		b.sample(name, labels, float64(*s.SwapUsageBytes), s.Time)
	}
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels writes pairs of name and value.
func labels(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0] + pairs[i] + `="`)
		escape.WriteString(&b, pairs[i+1])
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}
