package kubelet

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/node"
)

const (
	// Images go from the fullness at which the oldest unused are removed down
	// to that at which it is enough: upstream's defaults.
	imageHigh = 85
	imageLow  = 80
	// imageAge is how long an image is kept after it was last seen unused.
	imageAge = 2 * time.Minute
)

// byVolumeImage indexes the node's pods that show images as volumes.
const byVolumeImage = "kubelet.volumeimage"

// showsImages is the index's value of a pod that does and has not ended.
const showsImages = "yes"

func volumeImageOf(o client.Object) []string {
	p, ok := o.(*v1.Pod)
	if !ok || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed ||
		!slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Image != nil }) {
		return nil
	}
	return []string{showsImages}
}

// volumeImages are the names of the images that pods show as volumes: those
// that their specs say and, since a name may mean another image by now, those
// that are mounted.
func (k *Kubelet) volumeImages() []string {
	var out []string
	for _, o := range k.pods.ByIndex(byVolumeImage, showsImages) {
		p := o.(*v1.Pod)
		for i := range p.Spec.Volumes {
			if s := p.Spec.Volumes[i].Image; s != nil {
				out = append(out, s.Reference)
			}
		}
		for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
			for i := range list {
				for _, m := range list[i].VolumeMounts {
					if m.VolumeStatus != nil && m.VolumeStatus.Image != nil {
						out = append(out, m.VolumeStatus.Image.ImageRef)
					}
				}
			}
		}
	}
	return out
}

// removeImages removes unused images, those longest unused first, while the
// disk is too full.
func (k *Kubelet) removeImages(ctx context.Context, unused map[string]time.Time) {
	images, err := k.rt.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return
	}
	used, err := k.usedImages(ctx)
	if err != nil {
		return
	}
	old := disused(images.Images, used, unused, time.Now())
	root := k.imageRoot(ctx)
	if s := node.Disk(root); s.Total == 0 || (s.Total-s.Free)*100 < s.Total*imageHigh {
		return
	}
	for _, img := range old {
		if s := node.Disk(root); (s.Total-s.Free)*100 < s.Total*imageLow {
			return
		}
		if _, err := k.rt.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: img.Id}}); err == nil {
			delete(unused, img.Id)
		}
	}
}

// usedImages are the names and ids of the images that containers are made from
// and that volumes show.
func (k *Kubelet) usedImages(ctx context.Context) (map[string]bool, error) {
	containers, err := k.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, c := range containers.Containers {
		used[c.ImageRef], used[c.ImageId], used[c.GetImage().GetImage()] = true, true, true
	}
	for _, name := range k.volumeImages() {
		if used[name] {
			continue
		}
		// The runtime knows which image a short name means.
		resp, err := k.rt.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err != nil {
			return nil, err
		}
		used[name], used[resp.GetImage().GetId()] = true, true
	}
	return used, nil
}

// disused are the images that nobody has used for a while, the longest unused
// first. unused remembers since when, by id.
func disused(images []*runtimeapi.Image, used map[string]bool, unused map[string]time.Time, now time.Time) []*runtimeapi.Image {
	var old []*runtimeapi.Image
	for _, img := range images {
		in := used[img.Id] || img.Pinned
		for _, n := range slices.Concat(img.RepoDigests, img.RepoTags) {
			in = in || used[n]
		}
		if in {
			delete(unused, img.Id)
			continue
		}
		if unused[img.Id].IsZero() {
			unused[img.Id] = now
		}
		if now.Sub(unused[img.Id]) >= imageAge {
			old = append(old, img)
		}
	}
	slices.SortFunc(old, func(a, b *runtimeapi.Image) int { return unused[a.Id].Compare(unused[b.Id]) })
	return old
}

// imageRoot is where the runtime keeps images.
func (k *Kubelet) imageRoot(ctx context.Context) string {
	if resp, err := k.rt.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{}); err == nil && len(resp.ImageFilesystems) > 0 {
		if m := resp.ImageFilesystems[0].GetFsId().GetMountpoint(); m != "" {
			return m
		}
	}
	return k.opts.RootDir
}
