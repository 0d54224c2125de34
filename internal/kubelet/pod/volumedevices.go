package pod

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// volumeDevices are the volumes that a container has as devices.
//
// https://kubernetes.io/docs/concepts/storage/persistent-volumes/#raw-block-volume-support
func (d *Deps) volumeDevices(pod *v1.Pod, c *v1.Container) ([]*runtimeapi.Device, error) {
	var out []*runtimeapi.Device
	for _, want := range c.VolumeDevices {
		v := volumeNamed(pod, want.Name)
		if v == nil {
			return nil, fmt.Errorf("cannot find volume %q to pass into container %q", want.Name, c.Name)
		}
		permissions := "mrw"
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly {
			permissions = "mr"
		}
		out = append(out, &runtimeapi.Device{ContainerPath: want.DevicePath, HostPath: d.Volumes.Path(pod, v), Permissions: permissions})
	}
	return out, nil
}

// volumeNamed is the volume of a pod by its name; nil: there is none.
func volumeNamed(pod *v1.Pod, name string) *v1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}
