package stats

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cgroup"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// machine is a runtime and the control groups of one pod with the uid u.
type machine struct {
	cri.Runtime
	containers []*runtimeapi.ContainerStats
	groups     map[string]cgroup.Usage
	broken     error
}

func (m *machine) ListContainerStats(_ context.Context, in *runtimeapi.ListContainerStatsRequest, _ ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error) {
	if in.Filter.LabelSelector[cri.LabelOwner] != "me" {
		return nil, errors.New("asked for others' containers")
	}
	return &runtimeapi.ListContainerStatsResponse{Stats: m.containers}, m.broken
}

func (m *machine) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest, ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/"}, UsedBytes: &runtimeapi.UInt64Value{Value: 77}}}}, nil
}

func (m *machine) ListPodSandboxStats(context.Context, *runtimeapi.ListPodSandboxStatsRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	return &runtimeapi.ListPodSandboxStatsResponse{Stats: []*runtimeapi.PodSandboxStats{{
		Attributes: &runtimeapi.PodSandboxAttributes{Labels: map[string]string{cri.LabelPodUID: "u"}},
		Linux: &runtimeapi.LinuxPodSandboxStats{Network: &runtimeapi.NetworkUsage{Timestamp: 1,
			DefaultInterface: &runtimeapi.NetworkInterfaceUsage{Name: "eth0", RxBytes: &runtimeapi.UInt64Value{Value: 5}}}},
	}}}, nil
}

func (m *machine) group(name string) (cgroup.Usage, error) {
	u, ok := m.groups[name]
	if !ok {
		return u, os.ErrNotExist
	}
	u.At = time.Now()
	return u, nil
}

func (m *machine) OfPod(p *v1.Pod) (cgroup.Usage, error) { return m.group(string(p.UID)) }
func (m *machine) OfPods() (cgroup.Usage, error)         { return m.group("pods") }
func (m *machine) OfNode() (cgroup.Usage, error)         { return m.group("node") }

// uses sets what a container of the pod u has used.
func uses(name, id string, attempt uint32, cpu time.Duration, memory uint64) *runtimeapi.ContainerStats {
	now := time.Now().UnixNano()
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt}, Labels: map[string]string{
			cri.LabelPodUID: "u", cri.LabelPodName: "web", cri.LabelPodNamespace: "default", cri.LabelContainerName: name}},
		Cpu:    &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: uint64(cpu)}},
		Memory: &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: &runtimeapi.UInt64Value{Value: memory}, UsageBytes: &runtimeapi.UInt64Value{Value: 2 * memory}},
	}
}

func (m *machine) collector(dir string) *Collector {
	started := metav1.NewTime(time.Now().Add(-time.Hour))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "web"}, Status: v1.PodStatus{StartTime: &started, ContainerStatuses: []v1.ContainerStatus{
		{Name: "app", ContainerID: "containerd://1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: started}}}}}}
	return New(Options{Node: "n", Owner: "me", Runtime: m, Groups: m, Memory: 1000, Root: dir,
		Pod: func(uid types.UID) *v1.Pod {
			if uid == "u" {
				return pod
			}
			return nil
		},
		LogDir: func(_ *v1.Pod, c string) string { return filepath.Join(dir, c) }})
}

func (m *machine) ask(t *testing.T, c *Collector, full bool) *statsv1alpha1.Summary {
	t.Helper()
	s, err := c.Summary(t.Context(), full)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{groups: map[string]cgroup.Usage{"u": {CPU: 10e9, WorkingSet: 150}, "node": {CPU: 100e9, WorkingSet: 400}}}
		c := m.collector(t.TempDir())
		m.containers = []*runtimeapi.ContainerStats{uses("app", "1", 0, time.Second, 100)}
		s := m.ask(t, c, false)
		app := s.Pods[0].Containers[0]
		if app.CPU.UsageNanoCores != nil || *app.CPU.UsageCoreNanoSeconds != 1e9 || *app.Memory.WorkingSetBytes != 100 || app.StartTime.IsZero() {
			t.Errorf("first %+v", app)
		}
		if *s.Node.Memory.AvailableBytes != 600 || *s.Pods[0].Memory.WorkingSetBytes != 150 || s.Pods[0].Network != nil {
			t.Errorf("node %+v, pod %+v", s.Node.Memory, s.Pods[0])
		}
		time.Sleep(2 * time.Second)
		m.containers = []*runtimeapi.ContainerStats{uses("app", "1", 0, 2*time.Second, 100)}
		m.groups = map[string]cgroup.Usage{"u": {CPU: 11e9, WorkingSet: 150}, "node": {CPU: 104e9, WorkingSet: 400}}
		s = m.ask(t, c, false)
		if got := *s.Pods[0].Containers[0].CPU.UsageNanoCores; got != 5e8 {
			t.Errorf("the container uses %d", got)
		}
		if pod, node := *s.Pods[0].CPU.UsageNanoCores, *s.Node.CPU.UsageNanoCores; pod != 5e8 || node != 2e9 {
			t.Errorf("the pod uses %d, the node %d", pod, node)
		}
		// Asked at once again, the rate is the last one; a little later, one
		// since that.
		time.Sleep(100 * time.Millisecond)
		if got := *m.ask(t, c, false).Pods[0].Containers[0].CPU.UsageNanoCores; got != 5e8 {
			t.Errorf("at once again the container uses %d", got)
		}
		time.Sleep(900 * time.Millisecond)
		m.containers = []*runtimeapi.ContainerStats{uses("app", "1", 0, 3*time.Second, 100)}
		if got := *m.ask(t, c, false).Pods[0].Containers[0].CPU.UsageNanoCores; got != 1e9 {
			t.Errorf("after a second the container uses %d", got)
		}
		// A container that was started again has another id, and no rate yet.
		m.containers = []*runtimeapi.ContainerStats{uses("app", "2", 1, time.Millisecond, 50), uses("app", "1", 0, 3*time.Second, 100)}
		cs := m.ask(t, c, false).Pods[0].Containers
		if len(cs) != 1 || *cs[0].Memory.WorkingSetBytes != 50 || cs[0].CPU.UsageNanoCores != nil {
			t.Errorf("after its restart: %+v", cs)
		}
		m.containers = nil
		if s := m.ask(t, c, false); len(s.Pods) != 0 || len(c.last) != 1 {
			t.Errorf("of what has gone is left: %+v, %v", s.Pods, c.last)
		}
		m.broken = errors.New("the runtime is away")
		if _, err := c.Summary(t.Context(), false); err == nil {
			t.Error("without a runtime there is an answer")
		}
	})
}

// Without control groups, pods and node are the sum of their containers.
func TestSums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		c := m.collector(t.TempDir())
		ended := uses("done", "9", 0, 0, 0)
		ended.Cpu = nil
		m.containers = []*runtimeapi.ContainerStats{uses("app", "1", 0, time.Second, 100), uses("side", "2", 0, 3*time.Second, 20), ended}
		s := m.ask(t, c, false)
		if len(s.Pods) != 1 || len(s.Pods[0].Containers) != 2 {
			t.Fatalf("pods %+v", s.Pods)
		}
		if p := s.Pods[0]; *p.CPU.UsageCoreNanoSeconds != 4e9 || *p.Memory.WorkingSetBytes != 120 || *p.Memory.UsageBytes != 240 {
			t.Errorf("pod %+v %+v", p.CPU, p.Memory)
		}
		if n := s.Node; *n.CPU.UsageCoreNanoSeconds != 4e9 || *n.Memory.WorkingSetBytes != 120 {
			t.Errorf("node %+v %+v", n.CPU, n.Memory)
		}
	})
}

func TestSystems(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "app"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "app", "0.log"), make([]byte, 42), 0o644); err != nil {
		t.Fatal(err)
	}
	m := &machine{groups: map[string]cgroup.Usage{"pods": {CPU: 1, WorkingSet: 2}}}
	one := uses("app", "1", 0, time.Second, 100)
	one.WritableLayer = &runtimeapi.FilesystemUsage{UsedBytes: &runtimeapi.UInt64Value{Value: 9}}
	m.containers = []*runtimeapi.ContainerStats{one}
	s := m.ask(t, m.collector(dir), true)
	app := s.Pods[0].Containers[0]
	if *app.Rootfs.UsedBytes != 9 || *app.Logs.UsedBytes != 42 || *app.Logs.InodesUsed != 1 {
		t.Errorf("container: %+v %+v", app.Rootfs, app.Logs)
	}
	if n := s.Pods[0].Network; n == nil || n.Name != "eth0" || *n.RxBytes != 5 || len(n.Interfaces) != 1 {
		t.Errorf("the pod's network is %+v", n)
	}
	n := s.Node
	if *n.Fs.CapacityBytes < *n.Fs.UsedBytes || *n.Runtime.ImageFs.UsedBytes != 77 || *n.Runtime.ImageFs.CapacityBytes == 0 {
		t.Errorf("file systems: %+v, %+v", n.Fs, n.Runtime.ImageFs)
	}
	if *n.Rlimit.MaxPID <= 0 || n.StartTime.After(time.Now()) || n.SystemContainers[0].Name != "pods" {
		t.Errorf("node: %+v", n)
	}
	file := filepath.Join(dir, "dev")
	if err := os.WriteFile(file, []byte("Inter-|   Receive\n face |bytes\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 10 1 2 0 0 0 0 0 20 1 3 0 0 0 0 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := network(file); got.Name != "eth0" || *got.RxBytes != 10 || *got.RxErrors != 2 || *got.TxBytes != 20 || *got.TxErrors != 3 {
		t.Errorf("network %+v", got)
	}
}

// TestVolumes: volumes are told of with the claims that they are by, of pods that
// run and have them, and only where everything is asked for.
func TestVolumes(t *testing.T) {
	m := &machine{containers: []*runtimeapi.ContainerStats{uses("app", "1", 0, time.Second, 100)}}
	c := m.collector(t.TempDir())
	c.opts.Pod("u").Namespace = "shop"
	c.opts.Pod("u").Spec.Volumes = []v1.Volume{
		{Name: "own", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}, {Name: "inline"}, {Name: "unknown"},
		{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}}}
	asked := 0
	c.opts.Volumes = func(context.Context) map[types.UID]map[string]*statsv1alpha1.FsStats {
		asked++
		n := func(n uint64) *statsv1alpha1.FsStats { return &statsv1alpha1.FsStats{UsedBytes: &n} }
		return map[types.UID]map[string]*statsv1alpha1.FsStats{"u": {"data": n(1), "own": n(2), "inline": n(3), "gone": n(4)}, "other": {"data": n(5)}}
	}
	if got := m.ask(t, c, false).Pods[0].VolumeStats; got != nil || asked != 0 {
		t.Errorf("in short it says %v, after %d questions", got, asked)
	}
	got := m.ask(t, c, true).Pods[0].VolumeStats
	want := []struct {
		name, claim string
		used        uint64
	}{{"data", "disk", 1}, {"inline", "", 3}, {"own", "web-own", 2}}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, w := range want {
		claim := ""
		if ref := got[i].PVCRef; ref != nil && ref.Namespace == "shop" {
			claim = ref.Name
		}
		if got[i].Name != w.name || claim != w.claim || *got[i].UsedBytes != w.used {
			t.Errorf("got %+v, want %+v", got[i], w)
		}
	}
}
