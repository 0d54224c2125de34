package kubelet

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/logs"
)

const (
	houseEvery = 10 * time.Second
	imageEvery = 5 * time.Minute
)

// housekeep keeps what piles up small: dead containers, log files, images.
func (k *Kubelet) housekeep(ctx context.Context) {
	unused := map[string]time.Time{} // image id to when it was first seen unused
	var images time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(houseEvery):
		}
		resp, err := k.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{
			Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{cri.LabelOwner: k.opts.Owner}}})
		if err != nil {
			continue
		}
		k.removeDead(ctx, resp.Containers)
		k.rotate(ctx, resp.Containers)
		if time.Since(images) >= imageEvery {
			images = time.Now()
			k.removeImages(ctx, unused)
		}
		k.removeLogs()
	}
}

// removeDead keeps the newest container of each name and one dead one before
// it: its log, and how it ended, may be asked for.
func (k *Kubelet) removeDead(ctx context.Context, all []*runtimeapi.Container) {
	for _, c := range superfluous(all) {
		if _, err := k.rt.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.Id}); err != nil && !cri.IsNotFound(err) {
			k.opts.Logger.Debug("dead container stays", "container", c.Id, "error", err)
			continue
		}
		for _, path := range logs.Files(k.logPath(c)) {
			_ = os.Remove(path)
		}
	}
}

// superfluous are the dead containers that nobody asks for any more.
func superfluous(all []*runtimeapi.Container) []*runtimeapi.Container {
	type name struct{ uid, container string }
	by := map[name][]*runtimeapi.Container{}
	for _, c := range all {
		n := name{c.Labels[cri.LabelPodUID], c.Labels[cri.LabelContainerName]}
		by[n] = append(by[n], c)
	}
	var out []*runtimeapi.Container
	for _, cs := range by {
		slices.SortFunc(cs, func(a, b *runtimeapi.Container) int { return int(b.CreatedAt - a.CreatedAt) })
		for _, c := range cs[min(len(cs), 2):] {
			if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
				out = append(out, c)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Id < out[j].Id })
	return out
}

func (k *Kubelet) logPath(c *runtimeapi.Container) string {
	l := c.Labels
	dir := l[cri.LabelPodNamespace] + "_" + l[cri.LabelPodName] + "_" + l[cri.LabelPodUID]
	return filepath.Join(k.opts.PodLogsDir, dir, l[cri.LabelContainerName], c.Annotations[cri.AnnotationRestartCount]+".log")
}

// rotate rotates the logs of running containers that have grown large.
func (k *Kubelet) rotate(ctx context.Context, all []*runtimeapi.Container) {
	for _, c := range all {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		err := logs.Rotate(k.logPath(c), func() error {
			_, err := k.rt.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: c.Id})
			return err
		})
		if err != nil && ctx.Err() == nil {
			k.opts.Logger.Info("log not rotated", "container", c.Id, "error", err)
		}
	}
}

// removeLogs removes the log folders of pods that are no more.
func (k *Kubelet) removeLogs() {
	entries, err := os.ReadDir(k.opts.PodLogsDir)
	if err != nil {
		return
	}
	for _, e := range entries {
		parts := strings.Split(e.Name(), "_")
		if len(parts) != 3 || k.known(types.UID(parts[2])) || !k.ownsLogs() {
			continue
		}
		_ = os.RemoveAll(filepath.Join(k.opts.PodLogsDir, e.Name()))
	}
}

// ownsLogs tells whether the log folder is this kubelet's alone. That of the
// machine may hold the logs of others.
func (k *Kubelet) ownsLogs() bool { return k.opts.PodLogsDir != "/var/log/pods" }
