// Package stats measures what a node and what runs on it use: containers from
// the runtime, pods and the node from control groups (versions 1 and 2). Where
// there are no control groups to read, pods and node are the sum of their
// containers.
//
// Nothing is measured before somebody asks. How many cores are in use just now
// is what was used since the last time somebody asked.
//
// Concurrency: a Collector may be used from many goroutines; they measure one
// after the other. Failure: without the runtime there is no answer; what else
// cannot be read is left out.
package stats

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cgroup"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// Groups read what groups of processes use; *cgroup.Tree does.
type Groups interface {
	OfPod(*v1.Pod) (cgroup.Usage, error)
	OfPods() (cgroup.Usage, error)
	OfNode() (cgroup.Usage, error)
}

// Options of a Collector.
type Options struct {
	Node    string
	Owner   string // of the containers, see cri.LabelOwner
	Runtime cri.Runtime
	// Pod finds a pod of this node; nil when there is none.
	Pod    func(types.UID) *v1.Pod
	Groups Groups // nil: none can be read
	Memory uint64 // of the machine, in bytes
	Root   string // a path on the file system of pods
	// LogDir is where the logs of a pod's container lie.
	LogDir func(p *v1.Pod, container string) string
	// Volumes is what is known of pods' volumes, by the pod and the volume's
	// name. nil: nothing.
	Volumes func(context.Context) map[types.UID]map[string]*statsv1alpha1.FsStats
}

// Collector measures.
type Collector struct {
	opts Options
	boot time.Time

	mu   sync.Mutex
	last map[string]rate // guarded by mu; by what was measured
}

// rate is how fast CPU time was used when it was last measured.
type rate struct {
	at    time.Time
	cpu   uint64
	cores *uint64 // billionths; nil when not known
}

// shortest is the least time that a rate is taken over.
const shortest = 500 * time.Millisecond

// New makes a Collector.
func New(o Options) *Collector { return &Collector{opts: o, boot: bootTime(), last: map[string]rate{}} }

// Summary measures. full asks for file systems and networks as well.
func (c *Collector) Summary(ctx context.Context, full bool) (*statsv1alpha1.Summary, error) {
	resp, err := c.opts.Runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{
		Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{cri.LabelOwner: c.opts.Owner}}})
	if err != nil {
		return nil, err
	}
	var volumes map[types.UID]map[string]*statsv1alpha1.FsStats
	if full && c.opts.Volumes != nil {
		volumes = c.opts.Volumes(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &measurement{c: c, next: map[string]rate{}, at: map[string]int{}, attempt: map[string]uint32{}}
	for _, s := range resp.Stats {
		m.container(s, full)
	}
	m.pods()
	m.node()
	if full {
		m.systems(ctx)
		m.volumes(volumes)
	}
	c.last = m.next // what has gone is forgotten
	slices.SortFunc(m.out.Pods, func(a, b statsv1alpha1.PodStats) int {
		return strings.Compare(a.PodRef.Namespace+"/"+a.PodRef.Name, b.PodRef.Namespace+"/"+b.PodRef.Name)
	})
	return &m.out, nil
}

// measurement is one Summary in the making. The Collector's mu is held.
type measurement struct {
	c       *Collector
	next    map[string]rate
	out     statsv1alpha1.Summary
	at      map[string]int // index of a pod in out, by uid
	attempt map[string]uint32
	sum     cgroup.Usage // of all containers
}

// cpuStats adds what is known of the time before.
func (m *measurement) cpuStats(of string, at time.Time, cpu uint64) *statsv1alpha1.CPUStats {
	now := rate{at: at, cpu: cpu}
	if had, ok := m.c.last[of]; ok && cpu >= had.cpu {
		now.cores = had.cores
		if past := at.Sub(had.at); past >= shortest {
			cores := uint64(float64(cpu-had.cpu) / past.Seconds())
			now.cores = &cores
		} else {
			now.at, now.cpu = had.at, had.cpu // the next rate is from there
		}
	}
	m.next[of] = now
	return &statsv1alpha1.CPUStats{Time: metav1.NewTime(at), UsageCoreNanoSeconds: &cpu, UsageNanoCores: now.cores}
}

func (m *measurement) container(s *runtimeapi.ContainerStats, full bool) {
	a := s.GetAttributes()
	l := a.GetLabels()
	if s.GetCpu().GetUsageCoreNanoSeconds() == nil || s.GetMemory().GetWorkingSetBytes() == nil {
		return // it has ended, or is about to begin
	}
	uid, name := l[cri.LabelPodUID], l[cri.LabelContainerName]
	i, ok := m.at[uid]
	if !ok {
		i = len(m.out.Pods)
		m.at[uid] = i
		m.out.Pods = append(m.out.Pods, statsv1alpha1.PodStats{
			PodRef: statsv1alpha1.PodReference{Name: l[cri.LabelPodName], Namespace: l[cri.LabelPodNamespace], UID: uid}})
	}
	p := &m.out.Pods[i]
	pod := m.c.opts.Pod(types.UID(uid))
	stat := statsv1alpha1.ContainerStats{
		Name: name, StartTime: startOf(pod, a),
		CPU:    m.cpuStats(a.GetId(), time.Unix(0, s.GetCpu().GetTimestamp()), s.GetCpu().GetUsageCoreNanoSeconds().GetValue()),
		Memory: memoryOf(s.GetMemory()),
	}
	if swap := s.GetSwap(); swap != nil {
		stat.Swap = &statsv1alpha1.SwapStats{Time: metav1.NewTime(time.Unix(0, swap.GetTimestamp())),
			SwapAvailableBytes: value(swap.GetSwapAvailableBytes()), SwapUsageBytes: value(swap.GetSwapUsageBytes())}
	}
	if full {
		stat.Rootfs = layerOf(s.GetWritableLayer())
		if pod != nil && m.c.opts.LogDir != nil {
			stat.Logs = filesIn(m.c.opts.LogDir(pod, name))
		}
	}
	// Of two lives of one container the later counts.
	attempt := a.GetMetadata().GetAttempt()
	key := uid + "/" + name
	if had, twice := m.attempt[key]; twice {
		if had < attempt {
			j := slices.IndexFunc(p.Containers, func(c statsv1alpha1.ContainerStats) bool { return c.Name == name })
			p.Containers[j] = stat
			m.attempt[key] = attempt
		}
		return
	}
	m.attempt[key] = attempt
	p.Containers = append(p.Containers, stat)
}

// startOf is when a container started, by its pod's status; else it is not
// known.
func startOf(pod *v1.Pod, a *runtimeapi.ContainerAttributes) metav1.Time {
	if pod == nil {
		return metav1.Time{}
	}
	for _, list := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if s := &list[i]; s.State.Running != nil && strings.HasSuffix(s.ContainerID, "://"+a.GetId()) {
				return s.State.Running.StartedAt
			}
		}
	}
	return metav1.Time{}
}

// pods are measured as wholes.
func (m *measurement) pods() {
	for i := range m.out.Pods {
		p := &m.out.Pods[i]
		var sum cgroup.Usage
		for j := range p.Containers {
			c := &p.Containers[j]
			sum.At = c.CPU.Time.Time
			sum.CPU += *c.CPU.UsageCoreNanoSeconds
			sum.WorkingSet += *c.Memory.WorkingSetBytes
			sum.Memory += orZero(c.Memory.UsageBytes)
			sum.RSS += orZero(c.Memory.RSSBytes)
		}
		m.sum.At = sum.At
		m.sum.CPU += sum.CPU
		m.sum.WorkingSet, m.sum.Memory, m.sum.RSS = m.sum.WorkingSet+sum.WorkingSet, m.sum.Memory+sum.Memory, m.sum.RSS+sum.RSS
		of := sum
		if pod := m.c.opts.Pod(types.UID(p.PodRef.UID)); pod != nil {
			if pod.Status.StartTime != nil {
				p.StartTime = *pod.Status.StartTime
			}
			if m.c.opts.Groups != nil {
				if u, err := m.c.opts.Groups.OfPod(pod); err == nil {
					of = u
					p.ProcessStats = &statsv1alpha1.ProcessStats{ProcessCount: &u.Processes}
					p.Swap = swapOf(u)
				}
			}
		}
		p.CPU, p.Memory = m.cpuStats("pod/"+p.PodRef.UID, of.At, of.CPU), usage(of)
	}
}

func (m *measurement) node() {
	n := &m.out.Node
	n.NodeName, n.StartTime = m.c.opts.Node, metav1.NewTime(m.c.boot)
	of := m.sum
	if of.At.IsZero() {
		of.At = time.Now()
	}
	if g := m.c.opts.Groups; g != nil {
		if u, err := g.OfNode(); err == nil {
			of = u
			n.Swap = swapOf(u)
		}
		if u, err := g.OfPods(); err == nil {
			n.SystemContainers = []statsv1alpha1.ContainerStats{{Name: statsv1alpha1.SystemContainerPods, StartTime: n.StartTime,
				CPU: m.cpuStats("pods", u.At, u.CPU), Memory: usage(u)}}
		}
	}
	n.CPU, n.Memory = m.cpuStats("node", of.At, of.CPU), usage(of)
	if total := m.c.opts.Memory; total > *n.Memory.WorkingSetBytes {
		free := total - *n.Memory.WorkingSetBytes
		n.Memory.AvailableBytes = &free
	}
}

func usage(u cgroup.Usage) *statsv1alpha1.MemoryStats {
	return &statsv1alpha1.MemoryStats{Time: metav1.NewTime(u.At), UsageBytes: &u.Memory, WorkingSetBytes: &u.WorkingSet,
		RSSBytes: &u.RSS, PageFaults: &u.Faults, MajorPageFaults: &u.MajorFaults}
}

func swapOf(u cgroup.Usage) *statsv1alpha1.SwapStats {
	return &statsv1alpha1.SwapStats{Time: metav1.NewTime(u.At), SwapUsageBytes: &u.Swap}
}

func memoryOf(s *runtimeapi.MemoryUsage) *statsv1alpha1.MemoryStats {
	return &statsv1alpha1.MemoryStats{
		Time: metav1.NewTime(time.Unix(0, s.GetTimestamp())), AvailableBytes: value(s.GetAvailableBytes()), UsageBytes: value(s.GetUsageBytes()),
		WorkingSetBytes: value(s.GetWorkingSetBytes()), RSSBytes: value(s.GetRssBytes()),
		PageFaults: value(s.GetPageFaults()), MajorPageFaults: value(s.GetMajorPageFaults()),
	}
}

func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return &v.Value
}

func orZero(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}
