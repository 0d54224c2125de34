package stats

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// systems measures file systems, networks and processes.
func (m *measurement) systems(ctx context.Context) {
	n := &m.out.Node
	n.Fs = fileSystem(m.c.opts.Root)
	n.Network = network("/proc/net/dev")
	n.Rlimit = processes("/proc")
	if resp, err := m.c.opts.Runtime.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{}); err == nil {
		n.Runtime = &statsv1alpha1.RuntimeStats{ImageFs: storeOf(resp.GetImageFilesystems()), ContainerFs: storeOf(resp.GetContainerFilesystems())}
		if n.Runtime.ContainerFs == nil {
			n.Runtime.ContainerFs = n.Runtime.ImageFs // one store for both
		}
	}
	resp, err := m.c.opts.Runtime.ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{
		Filter: &runtimeapi.PodSandboxStatsFilter{LabelSelector: map[string]string{cri.LabelOwner: m.c.opts.Owner}}})
	if err != nil {
		return // not every runtime has it
	}
	for _, s := range resp.Stats {
		if i, ok := m.at[s.GetAttributes().GetLabels()[cri.LabelPodUID]]; ok && s.GetLinux().GetNetwork() != nil {
			m.out.Pods[i].Network = networkOf(s.GetLinux().GetNetwork())
		}
	}
}

// fileSystem is the one that path lies on; nil when it cannot be read.
func fileSystem(path string) *statsv1alpha1.FsStats {
	var st unix.Statfs_t
	if path == "" || unix.Statfs(path, &st) != nil {
		return nil
	}
	size := uint64(st.Bsize)
	total, free, used := st.Blocks*size, st.Bavail*size, (st.Blocks-st.Bfree)*size
	inodes := st.Files - st.Ffree
	return &statsv1alpha1.FsStats{Time: metav1.Now(), CapacityBytes: &total, AvailableBytes: &free, UsedBytes: &used,
		Inodes: &st.Files, InodesFree: &st.Ffree, InodesUsed: &inodes}
}

// storeOf is a store of the runtime, on the file system that it lies on.
func storeOf(stores []*runtimeapi.FilesystemUsage) *statsv1alpha1.FsStats {
	if len(stores) == 0 {
		return nil
	}
	out := fileSystem(stores[0].GetFsId().GetMountpoint())
	if out == nil {
		out = &statsv1alpha1.FsStats{Time: metav1.Now()}
	}
	out.UsedBytes, out.InodesUsed = value(stores[0].GetUsedBytes()), value(stores[0].GetInodesUsed())
	return out
}

func layerOf(s *runtimeapi.FilesystemUsage) *statsv1alpha1.FsStats {
	if s == nil {
		return nil
	}
	return &statsv1alpha1.FsStats{Time: metav1.NewTime(time.Unix(0, s.GetTimestamp())), UsedBytes: value(s.GetUsedBytes()), InodesUsed: value(s.GetInodesUsed())}
}

// filesIn counts the files of a folder.
func filesIn(dir string) *statsv1alpha1.FsStats {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var bytes, inodes uint64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes, inodes = bytes+uint64(info.Size()), inodes+1
		}
	}
	return &statsv1alpha1.FsStats{Time: metav1.Now(), UsedBytes: &bytes, InodesUsed: &inodes}
}

// network reads the counters of the machine's interfaces. The first that is
// not the loopback counts as the machine's own.
func network(file string) *statsv1alpha1.NetworkStats {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	out := &statsv1alpha1.NetworkStats{Time: metav1.Now()}
	for line := range strings.Lines(string(data)) {
		name, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if name = strings.TrimSpace(name); !ok || name == "lo" || len(f) < 11 {
			continue
		}
		count := func(i int) *uint64 {
			n, err := strconv.ParseUint(f[i], 10, 64)
			if err != nil {
				return nil
			}
			return &n
		}
		out.Interfaces = append(out.Interfaces, statsv1alpha1.InterfaceStats{Name: name, RxBytes: count(0), RxErrors: count(2), TxBytes: count(8), TxErrors: count(10)})
	}
	if len(out.Interfaces) == 0 {
		return nil
	}
	out.InterfaceStats = out.Interfaces[0]
	return out
}

func networkOf(s *runtimeapi.NetworkUsage) *statsv1alpha1.NetworkStats {
	of := func(i *runtimeapi.NetworkInterfaceUsage) statsv1alpha1.InterfaceStats {
		return statsv1alpha1.InterfaceStats{Name: i.GetName(), RxBytes: value(i.GetRxBytes()), RxErrors: value(i.GetRxErrors()),
			TxBytes: value(i.GetTxBytes()), TxErrors: value(i.GetTxErrors())}
	}
	out := &statsv1alpha1.NetworkStats{Time: metav1.NewTime(time.Unix(0, s.GetTimestamp()))}
	if s.GetDefaultInterface() != nil {
		out.InterfaceStats = of(s.GetDefaultInterface())
		out.Interfaces = append(out.Interfaces, out.InterfaceStats)
	}
	for _, i := range s.GetInterfaces() {
		if i.GetName() != out.Name {
			out.Interfaces = append(out.Interfaces, of(i))
		}
	}
	return out
}

// processes is how many there are, and how many there may be.
func processes(proc string) *statsv1alpha1.RlimitStats {
	number := func(text string) *int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return nil
		}
		return &n
	}
	out := &statsv1alpha1.RlimitStats{Time: metav1.Now()}
	if data, err := os.ReadFile(filepath.Join(proc, "sys/kernel/pid_max")); err == nil {
		out.MaxPID = number(string(data))
	}
	if data, err := os.ReadFile(filepath.Join(proc, "loadavg")); err == nil {
		if f := strings.Fields(string(data)); len(f) > 3 { // 0.1 0.2 0.3 running/all last
			_, all, _ := strings.Cut(f[3], "/")
			out.NumOfRunningProcesses = number(all)
		}
	}
	return out
}

// bootTime is when the machine started.
func bootTime() time.Time {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(info.Uptime) * time.Second).Truncate(time.Second)
}
