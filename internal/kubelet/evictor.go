package kubelet

import (
	"context"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/evict"
	"github.com/setpoint-project/setpoint/internal/kubelet/logs"
	"github.com/setpoint-project/setpoint/internal/kubelet/pod"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// evictEvery is how often it is looked what pods use, as upstream does.
const evictEvery = 10 * time.Second

// keepRoom makes pods leave that use too much of the node. While nothing has a
// limit and nothing is short, it measures nothing.
func (k *Kubelet) keepRoom(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(evictEvery):
		}
		shortages := k.node.Shortages()
		var pods []*v1.Pod
		for _, obj := range k.pods.List("") {
			p := obj.(*v1.Pod)
			if !done(p) && p.DeletionTimestamp == nil && (len(shortages) > 0 || limited(p)) {
				pods = append(pods, p)
			}
		}
		if len(pods) == 0 {
			continue
		}
		usage := k.usage(ctx, pods)
		for _, e := range evict.Excess(usage) {
			k.evict(e)
		}
		if len(shortages) > 0 {
			if e := evict.Relieve(usage, shortages[0]); e != nil {
				k.evict(*e)
			}
		}
	}
}

func done(p *v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed }

// limited tells whether a pod may use so much disk and no more.
func limited(p *v1.Pod) bool {
	for i := range p.Spec.Volumes {
		if dir := p.Spec.Volumes[i].EmptyDir; dir != nil && dir.SizeLimit != nil && dir.Medium == v1.StorageMediumDefault {
			return true
		}
	}
	for i := range p.Spec.Containers {
		if _, ok := p.Spec.Containers[i].Resources.Limits[v1.ResourceEphemeralStorage]; ok {
			return true
		}
	}
	return false
}

func (k *Kubelet) evict(e evict.Eviction) {
	k.opts.Logger.Info("pod is evicted", "pod", e.Pod.Namespace+"/"+e.Pod.Name, "reason", e.Message)
	f := status.Failure{Reason: evict.Reason, Message: e.Message, Disruption: e.Disruption}
	k.wake(e.Pod.UID, func(w *pod.Worker) { w.Evict(f) })
}

// usage measures what pods use.
func (k *Kubelet) usage(ctx context.Context, pods []*v1.Pod) []evict.Usage {
	out := make([]evict.Usage, len(pods))
	at := map[string]int{}
	for i, p := range pods {
		out[i] = evict.Usage{Pod: p, Volumes: map[string]int64{}, Containers: map[string]evict.Container{}}
		at[string(p.UID)] = i
		for v := range p.Spec.Volumes {
			if dir := p.Spec.Volumes[v].EmptyDir; dir != nil && dir.Medium == v1.StorageMediumDefault {
				out[i].Volumes[p.Spec.Volumes[v].Name] = diskUsage(k.volumes.Path(p, &p.Spec.Volumes[v]))
			}
		}
	}
	resp, err := k.rt.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{
		Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{cri.LabelOwner: k.opts.Owner}}})
	if err != nil {
		return out
	}
	for _, s := range resp.Stats {
		l := s.GetAttributes().GetLabels()
		i, ok := at[l[cri.LabelPodUID]]
		if !ok {
			continue
		}
		use := evict.Container{Memory: int64(s.GetMemory().GetWorkingSetBytes().GetValue()), Disk: int64(s.GetWritableLayer().GetUsedBytes().GetValue())}
		for _, path := range logs.Files(k.logPath(&runtimeapi.Container{Labels: l, Annotations: s.GetAttributes().GetAnnotations()})) {
			use.Disk += diskUsage(path)
		}
		out[i].Containers[l[cri.LabelContainerName]] = use
	}
	return out
}

// diskUsage is what a file or folder takes on its file system, as du counts it;
// what lies on others mounted in it does not count.
func diskUsage(path string) (sum int64) {
	type inode struct{ dev, ino uint64 }
	seen := map[inode]bool{}
	var dev uint64
	_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went meanwhile
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		if dev == 0 {
			dev = uint64(st.Dev)
		}
		if uint64(st.Dev) != dev {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if st.Nlink > 1 && !d.IsDir() {
			if at := (inode{uint64(st.Dev), st.Ino}); seen[at] {
				return nil
			} else {
				seen[at] = true
			}
		}
		sum += st.Blocks * 512
		return nil
	})
	return sum
}
