package cgroup

import (
	"os"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kinds/core"
)

const (
	minShares = 2
	maxShares = 262144
	period    = 100000 // microseconds: the kernel's default
	minQuota  = 1000
)

// class is the pod's: the API server's word, which stands for the pod's life.
func class(pod *v1.Pod) v1.PodQOSClass {
	if c := pod.Status.QOSClass; c != "" {
		return c
	}
	return core.QOSClass(&pod.Spec)
}

// Limits are what a group may use.
type Limits struct {
	RequestMilli int64
	Shares       int64
	Quota        int64 // microseconds a period; 0: no limit
	Period       int64
	Memory       int64 // bytes; 0: no limit
}

// podLimits are a pod's. There is a limit only when every container has one,
// for else one without would be held by the others'.
func podLimits(pod *v1.Pod) Limits {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	cpuAll, memAll := true, true
	check := func(c *v1.Container) {
		cpuAll = cpuAll && !c.Resources.Limits.Cpu().IsZero()
		memAll = memAll && !c.Resources.Limits.Memory().IsZero()
	}
	for i := range pod.Spec.Containers {
		check(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		check(&pod.Spec.InitContainers[i])
	}
	if r := pod.Spec.Resources; r != nil {
		cpuAll = cpuAll || !r.Limits.Cpu().IsZero()
		memAll = memAll || !r.Limits.Memory().IsZero()
	}
	milli := requests.Cpu().MilliValue()
	l := Limits{RequestMilli: milli, Shares: Shares(milli), Period: period}
	if cpuAll {
		l.Quota = quota(limits.Cpu().MilliValue())
	}
	if memAll {
		l.Memory = limits.Memory().Value()
	}
	return l
}

// Shares is the CPU share of so many thousandths of a CPU.
func Shares(milli int64) int64 { return min(max(milli*1024/1000, minShares), maxShares) }

func quota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*period/1000, minQuota)
}

// weight is version 2's form of a share.
func weight(shares int64) int64 { return 1 + (shares-minShares)*9999/(maxShares-minShares) }

// Container are one container's resources for the runtime.
func (t *Tree) Container(pod *v1.Pod, c *v1.Container, memory int64) *runtimeapi.LinuxContainerResources {
	cpu, limit := c.Resources.Requests.Cpu(), c.Resources.Limits.Cpu()
	milli := cpu.MilliValue()
	if _, set := c.Resources.Requests[v1.ResourceCPU]; !set {
		milli = limit.MilliValue()
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          Shares(milli),
		CpuPeriod:          period,
		CpuQuota:           quota(limit.MilliValue()),
		MemoryLimitInBytes: c.Resources.Limits.Memory().Value(),
		OomScoreAdj:        clamp(oomScoreAdj(pod, c, memory)),
	}
	if t.V2() {
		// A container dies as a whole, not one process of it.
		r.Unified = map[string]string{"memory.oom.group": "1"}
		if r.MemoryLimitInBytes > 0 {
			r.MemorySwapLimitInBytes = r.MemoryLimitInBytes // no swap
		}
	}
	return r
}

// oomScoreAdj says how soon the kernel kills a container when memory is short:
// by its class, and by how much of the node's memory it asked for. See
// https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#node-out-of-memory-behavior.
func oomScoreAdj(pod *v1.Pod, c *v1.Container, memory int64) int64 {
	const guaranteed, worst = -997, 1000
	if pod.Spec.PriorityClassName == "system-node-critical" {
		return guaranteed
	}
	switch class(pod) {
	case v1.PodQOSGuaranteed:
		return guaranteed
	case v1.PodQOSBestEffort:
		return worst
	}
	if memory <= 0 {
		return worst - 1
	}
	adj := worst - worst*c.Resources.Requests.Memory().Value()/memory
	return min(max(adj, worst+guaranteed), worst-1)
}

// clamp keeps to what this process may give: without CAP_SYS_RESOURCE no one
// lowers the value below its own, and the container would not start.
func clamp(adj int64) int64 {
	if mayLower() {
		return adj
	}
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return max(adj, 0)
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(own)), 10, 64)
	if err != nil {
		return max(adj, 0)
	}
	return max(adj, v)
}

const capSysResource = 24

// mayLower tells whether this process has CAP_SYS_RESOURCE.
func mayLower() bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			return err == nil && caps&(1<<capSysResource) != 0
		}
	}
	return false
}
