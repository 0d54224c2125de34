package pod

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/env"
)

// containerConfig is what the runtime is told of one container. An error is
// the pod's or its objects', not the runtime's.
func (d *Deps) containerConfig(ctx context.Context, pod *v1.Pod, c *v1.Container, from launch) (*runtimeapi.ContainerConfig, error) {
	ips := from.sandbox.IPs
	if pod.Spec.HostNetwork {
		ips = d.HostIPs
	}
	vars, skipped, err := env.Make(ctx, d.envSources(pod), pod, c, d.envFacts(ips))
	if err != nil {
		return nil, err
	}
	if len(skipped) > 0 {
		d.Events.Pod(pod, c.Name, v1.EventTypeWarning, "InvalidEnvironmentVariableNames",
			"Keys [%s] were skipped since they are invalid environment variable names.", strings.Join(skipped, ", "))
	}
	security, err := d.security(ctx, pod, c, from.image)
	if err != nil {
		return nil, err
	}
	mounts, err := d.mounts(pod, c, from, ips, vars)
	if err != nil {
		return nil, err
	}
	devices, err := d.volumeDevices(pod, c)
	if err != nil {
		return nil, err
	}
	claimed, err := d.Devices.Devices(pod, c)
	if err != nil {
		return nil, err
	}
	command, args := env.Command(c, vars)
	config := &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(from.restarts)},
		Image:       &runtimeapi.ImageSpec{Image: from.image, UserSpecifiedImage: c.Image},
		Command:     command,
		Args:        args,
		WorkingDir:  c.WorkingDir,
		Mounts:      mounts,
		Devices:     devices,
		Labels:      cri.ContainerLabels(pod, c.Name, d.Owner),
		Annotations: cri.ContainerAnnotations(pod, c, from.restarts),
		LogPath:     filepath.Join(c.Name, fmt.Sprintf("%d.log", from.restarts)),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  stopSignal(c),
		Linux: &runtimeapi.LinuxContainerConfig{
			SecurityContext: security,
			Resources:       d.resources(pod, c),
		},
	}
	for _, name := range claimed {
		config.CDIDevices = append(config.CDIDevices, &runtimeapi.CDIDevice{Name: name})
	}
	for _, v := range vars {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: v.Name, Value: []byte(v.Value)})
	}
	return config, nil
}

func (d *Deps) resources(pod *v1.Pod, c *v1.Container) *runtimeapi.LinuxContainerResources {
	if d.Cgroups == nil {
		return nil
	}
	return d.Cgroups.Container(pod, c, d.Memory)
}

// stopSignal is the signal that asks the container to end, when the spec names
// one; the runtime knows the image's.
func stopSignal(c *v1.Container) runtimeapi.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT
	}
	name := "SIGNAL_" + strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*c.Lifecycle.StopSignal))
	return runtimeapi.Signal(runtimeapi.Signal_value[name])
}
