package pod

import (
	"context"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/image"
)

// A volume that shows an image is not made on the node: its image is pulled
// like a container's, and the runtime, which knows how to stack its layers,
// mounts it into each container, read-only, and takes it away with the sandbox.
//
// https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/

// imageVolume is the volume of a pod by its name, if it shows an image; else
// nil.
func imageVolume(pod *v1.Pod, name string) *v1.Volume {
	if v := volumeNamed(pod, name); v != nil && v.Image != nil {
		return v
	}
	return nil
}

// pullVolume brings the image of a volume to the node.
func (w *Worker) pullVolume(ctx context.Context, pod *v1.Pod, name string) func() func() {
	v := imageVolume(pod, name)
	return func() func() {
		img := w.pull(ctx, pod, image.OfVolume(v.Image))
		if img.Ref != "" {
			img.Digest = w.deps.Images.Digest(ctx, img.Ref)
		}
		return func() { w.volumes[name] = img }
	}
}

// mountImage is the mount of a part of an image, all of it when sub is empty.
func mountImage(v *v1.Volume, img Image, at, sub string) *runtimeapi.Mount {
	return &runtimeapi.Mount{
		ContainerPath: at, Readonly: true, ImageSubPath: sub,
		Image: &runtimeapi.ImageSpec{Image: img.Ref, UserSpecifiedImage: v.Image.Reference, ImageRef: img.Digest},
	}
}

// forgetVolumes has the images of a container's volumes looked for anew: one
// of them may have been removed.
func (w *Worker) forgetVolumes(c *v1.Container) {
	for i := range c.VolumeMounts {
		delete(w.volumes, c.VolumeMounts[i].Name)
	}
}
