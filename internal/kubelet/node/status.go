package node

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/evict"
)

// version is that of the API this kubelet speaks.
const version = "v1.37.2"

// maxImages are named in the status, the largest first.
const maxImages = 50

// status is what the node's status should be. What others wrote stays.
func (r *Reporter) status(ctx context.Context, have *v1.Node) *v1.NodeStatus {
	s := have.Status.DeepCopy()
	m := r.machine
	own := m.Resources(r.opts.MaxPods)
	s.Capacity, s.Allocatable = withOthers(own, have.Status.Capacity, have.Status.Capacity), withOthers(own, have.Status.Capacity, have.Status.Allocatable)
	s.Addresses = nil
	for _, ip := range r.opts.IPs {
		s.Addresses = append(s.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
	}
	s.Addresses = append(s.Addresses, v1.NodeAddress{Type: v1.NodeHostName, Address: r.opts.Name})
	s.DaemonEndpoints.KubeletEndpoint.Port = int32(r.opts.Port)
	s.NodeInfo = v1.NodeSystemInfo{
		MachineID: m.MachineID, SystemUUID: m.SystemUUID, BootID: m.BootID, KernelVersion: m.Kernel, OSImage: m.OSImage,
		KubeletVersion: version, KubeProxyVersion: "", OperatingSystem: m.OS, Architecture: m.Arch,
		ContainerRuntimeVersion: have.Status.NodeInfo.ContainerRuntimeVersion,
	}
	problem := r.runtime(ctx, s)
	r.note(problem)
	if problem == "" {
		r.images(ctx, s)
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	if problem != "" {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, "KubeletNotReady", problem
	}
	disk := v1.NodeCondition{Type: v1.NodeDiskPressure, Status: v1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"}
	mem := v1.NodeCondition{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"}
	for _, short := range r.Shortages() {
		if short.Resource == v1.ResourceMemory {
			mem.Status, mem.Reason, mem.Message = v1.ConditionTrue, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"
		} else {
			disk.Status, disk.Reason, disk.Message = v1.ConditionTrue, "KubeletHasDiskPressure", "kubelet has disk pressure"
		}
	}
	for _, c := range []v1.NodeCondition{
		mem, disk,
		{Type: v1.NodePIDPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		ready,
	} {
		set(s, c, now)
	}
	return s
}

// withOthers is what this node has itself, and of the extended resources that
// somebody else has put into its capacity what is there of them.
func withOthers(own, capacity, there v1.ResourceList) v1.ResourceList {
	out := own.DeepCopy()
	for name, all := range capacity {
		if _, ours := own[name]; ours || !IsExtended(name) {
			continue
		}
		if some, ok := there[name]; ok {
			all = some
		}
		out[name] = all
	}
	return out
}

// IsExtended tells resources that others give to a node from Kubernetes' own.
// https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
func IsExtended(name v1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// Thresholds of pressure: upstream's nodefs.available<10% and
// memory.available<100Mi.
const (
	diskPercent = 10
	memoryLeast = 100 << 20
)

// Shortages are what the node has too little of, the more urgent first.
func (r *Reporter) Shortages() (out []evict.Shortage) {
	if left := available(); left > 0 && left < memoryLeast {
		out = append(out, evict.Shortage{Resource: v1.ResourceMemory, Available: left, Threshold: memoryLeast})
	}
	if disk := Disk(r.opts.RootDir); disk.Total > 0 && disk.Free*100 < disk.Total*diskPercent {
		out = append(out, evict.Shortage{Resource: v1.ResourceEphemeralStorage, Available: int64(disk.Free), Threshold: int64(disk.Total / 100 * diskPercent)})
	}
	return out
}

// set takes a condition over; its transition time moves with its status only.
func set(s *v1.NodeStatus, c v1.NodeCondition, now metav1.Time) {
	c.LastHeartbeatTime, c.LastTransitionTime = now, now
	for i := range s.Conditions {
		if s.Conditions[i].Type == c.Type {
			if s.Conditions[i].Status == c.Status {
				c.LastTransitionTime = s.Conditions[i].LastTransitionTime
			}
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}

func condition(cs []v1.NodeCondition, t v1.NodeConditionType) v1.NodeCondition {
	for _, c := range cs {
		if c.Type == t {
			return c
		}
	}
	return v1.NodeCondition{}
}

// answerLimit is how long a runtime may take to answer: one that hangs must not
// keep the node from saying so.
const answerLimit = 10 * time.Second

// runtime asks the runtime how it is and returns what keeps the node from
// being ready.
func (r *Reporter) runtime(ctx context.Context, s *v1.NodeStatus) string {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	r.mu.Lock()
	v := r.version
	r.mu.Unlock()
	if v == nil {
		if err := r.Ask(ctx); err != nil {
			return fmt.Sprintf("container runtime is down: %s", cri.Message(err))
		}
		r.mu.Lock()
		v = r.version
		r.mu.Unlock()
	}
	s.NodeInfo.ContainerRuntimeVersion = v.RuntimeName + "://" + v.RuntimeVersion
	resp, err := r.opts.Runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return fmt.Sprintf("container runtime is down: %s", cri.Message(err))
	}
	s.RuntimeHandlers = nil
	for _, h := range resp.RuntimeHandlers {
		f := v1.NodeRuntimeHandlerFeatures{}
		if h.Features != nil {
			// Whatever the runtime can do: package pod makes no user namespaces.
			rro, userns := h.Features.RecursiveReadOnlyMounts, false
			f.RecursiveReadOnlyMounts, f.UserNamespaces = &rro, &userns
		}
		s.RuntimeHandlers = append(s.RuntimeHandlers, v1.NodeRuntimeHandler{Name: h.Name, Features: &f})
	}
	sort.Slice(s.RuntimeHandlers, func(i, j int) bool { return s.RuntimeHandlers[i].Name < s.RuntimeHandlers[j].Name })
	if f := resp.Features; f != nil {
		groups := f.SupplementalGroupsPolicy
		s.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &groups}
	}
	for _, c := range resp.GetStatus().GetConditions() {
		if c.Status {
			continue
		}
		switch c.Type {
		case runtimeapi.RuntimeReady:
			return fmt.Sprintf("container runtime not ready: RuntimeReady=false reason:%s message:%s", c.Reason, c.Message)
		case runtimeapi.NetworkReady:
			return fmt.Sprintf("container runtime network not ready: NetworkReady=false reason:%s message:%s", c.Reason, c.Message)
		}
	}
	return ""
}

// images lists what the runtime has; while it does not say, the list stays.
func (r *Reporter) images(ctx context.Context, s *v1.NodeStatus) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	resp, err := r.opts.Runtime.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return
	}
	s.Images = nil
	for _, img := range resp.Images {
		// In a fixed order: the runtime's changes from answer to answer, and
		// would be a change to write each time.
		names := append(slices.Sorted(slices.Values(img.RepoDigests)), slices.Sorted(slices.Values(img.RepoTags))...)
		if len(names) == 0 {
			continue
		}
		s.Images = append(s.Images, v1.ContainerImage{Names: names[:min(len(names), 5)], SizeBytes: int64(img.Size)})
	}
	sort.Slice(s.Images, func(i, j int) bool {
		if s.Images[i].SizeBytes != s.Images[j].SizeBytes {
			return s.Images[i].SizeBytes > s.Images[j].SizeBytes
		}
		return s.Images[i].Names[0] < s.Images[j].Names[0]
	})
	s.Images = s.Images[:min(len(s.Images), maxImages)]
}
