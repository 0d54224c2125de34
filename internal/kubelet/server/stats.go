package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// The form of /stats/summary, as far as we fill it.
type (
	summary struct {
		Node nodeStats  `json:"node"`
		Pods []podStats `json:"pods"`
	}
	nodeStats struct {
		Name   string       `json:"nodeName"`
		CPU    *cpuStats    `json:"cpu,omitempty"`
		Memory *memoryStats `json:"memory,omitempty"`
	}
	podStats struct {
		Ref        podRef           `json:"podRef"`
		CPU        *cpuStats        `json:"cpu,omitempty"`
		Memory     *memoryStats     `json:"memory,omitempty"`
		Containers []containerStats `json:"containers"`
	}
	podRef struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		UID       string `json:"uid"`
	}
	containerStats struct {
		Name   string       `json:"name"`
		CPU    *cpuStats    `json:"cpu,omitempty"`
		Memory *memoryStats `json:"memory,omitempty"`
	}
	cpuStats struct {
		Time  metav1.Time `json:"time"`
		Total uint64      `json:"usageCoreNanoSeconds"`
		Nano  uint64      `json:"usageNanoCores,omitempty"`
	}
	memoryStats struct {
		Time    metav1.Time `json:"time"`
		Working uint64      `json:"workingSetBytes"`
		Usage   uint64      `json:"usageBytes,omitempty"`
		RSS     uint64      `json:"rssBytes,omitempty"`
	}
)

func (s *Server) stats(r *http.Request) ([]*runtimeapi.ContainerStats, error) {
	resp, err := s.opts.Runtime.ListContainerStats(r.Context(), &runtimeapi.ListContainerStatsRequest{
		Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{cri.LabelOwner: s.opts.Owner}}})
	if err != nil {
		return nil, err
	}
	return resp.Stats, nil
}

func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	stats, err := s.stats(r)
	if err != nil {
		fail(w, err)
		return
	}
	out := summary{Node: nodeStats{Name: s.opts.Node}, Pods: []podStats{}}
	at := map[string]int{}
	node := sums{}
	for _, c := range stats {
		l := c.GetAttributes().GetLabels()
		uid := l[cri.LabelPodUID]
		i, ok := at[uid]
		if !ok {
			i = len(out.Pods)
			at[uid] = i
			out.Pods = append(out.Pods, podStats{Ref: podRef{l[cri.LabelPodName], l[cri.LabelPodNamespace], uid}})
		}
		var one sums
		one.add(c)
		node.add(c)
		p := &out.Pods[i]
		cpu, mem := one.stats()
		p.Containers = append(p.Containers, containerStats{l[cri.LabelContainerName], cpu, mem})
		if p.CPU == nil {
			p.CPU, p.Memory = one.stats()
		} else {
			p.CPU.Total, p.CPU.Nano = p.CPU.Total+cpu.Total, p.CPU.Nano+cpu.Nano
			p.Memory.Working, p.Memory.Usage, p.Memory.RSS = p.Memory.Working+mem.Working, p.Memory.Usage+mem.Usage, p.Memory.RSS+mem.RSS
		}
	}
	out.Node.CPU, out.Node.Memory = node.stats()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

type sums struct {
	at                  int64
	cpu, nano           uint64
	working, usage, rss uint64
}

func (s *sums) add(c *runtimeapi.ContainerStats) {
	s.at = max(s.at, c.GetCpu().GetTimestamp())
	s.cpu += c.GetCpu().GetUsageCoreNanoSeconds().GetValue()
	s.nano += c.GetCpu().GetUsageNanoCores().GetValue()
	s.working += c.GetMemory().GetWorkingSetBytes().GetValue()
	s.usage += c.GetMemory().GetUsageBytes().GetValue()
	s.rss += c.GetMemory().GetRssBytes().GetValue()
}

func (s *sums) stats() (*cpuStats, *memoryStats) {
	t := metav1.NewTime(time.Unix(0, s.at))
	return &cpuStats{t, s.cpu, s.nano}, &memoryStats{t, s.working, s.usage, s.rss}
}

// resource is what a metrics server scrapes, in Prometheus's text form.
func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	stats, err := s.stats(r)
	if err != nil {
		fail(w, err)
		return
	}
	var node sums
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprint(w, "# HELP container_cpu_usage_seconds_total Cumulative CPU time used by the container in core-seconds\n# TYPE container_cpu_usage_seconds_total counter\n")
	for _, c := range stats {
		node.add(c)
		fmt.Fprintf(w, "container_cpu_usage_seconds_total{%s} %g %d\n", labels(c), float64(c.GetCpu().GetUsageCoreNanoSeconds().GetValue())/1e9, c.GetCpu().GetTimestamp()/1e6)
	}
	fmt.Fprint(w, "# HELP container_memory_working_set_bytes Current working set of the container in bytes\n# TYPE container_memory_working_set_bytes gauge\n")
	for _, c := range stats {
		fmt.Fprintf(w, "container_memory_working_set_bytes{%s} %d %d\n", labels(c), c.GetMemory().GetWorkingSetBytes().GetValue(), c.GetMemory().GetTimestamp()/1e6)
	}
	fmt.Fprintf(w, "# HELP node_cpu_usage_seconds_total Cumulative CPU time used by the node's containers in core-seconds\n# TYPE node_cpu_usage_seconds_total counter\nnode_cpu_usage_seconds_total %g %d\n", float64(node.cpu)/1e9, node.at/1e6)
	fmt.Fprintf(w, "# HELP node_memory_working_set_bytes Current working set of the node's containers in bytes\n# TYPE node_memory_working_set_bytes gauge\nnode_memory_working_set_bytes %d %d\n", node.working, node.at/1e6)
}

func labels(c *runtimeapi.ContainerStats) string {
	l := c.GetAttributes().GetLabels()
	return fmt.Sprintf("container=%q,namespace=%q,pod=%q", l[cri.LabelContainerName], l[cri.LabelPodNamespace], l[cri.LabelPodName])
}
