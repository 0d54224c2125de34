package critest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer makes a container.
func (r *Runtime) CreateContainer(_ context.Context, in *runtimeapi.CreateContainerRequest, _ ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[in.PodSandboxId]
	if s == nil || s.State != runtimeapi.PodSandboxState_SANDBOX_READY {
		return nil, notFound("sandbox", in.PodSandboxId)
	}
	c := in.Config
	if err := r.callLocked("CreateContainer", c.Metadata.Name); err != nil {
		return nil, err
	}
	for _, m := range c.Mounts {
		// What the real one checks of an image that is mounted.
		switch ref := m.GetImage().GetImage(); {
		case m.Image == nil:
		case !m.Readonly || m.HostPath != "":
			return nil, status.Errorf(codes.Unknown, "mount of image %s is not read-only, or has a host path", ref)
		case !r.images[strings.TrimPrefix(ref, "id-of-")]:
			return nil, status.Errorf(codes.Unknown, "ImageVolumeMountFailed: no image %s", ref)
		}
	}
	for _, b := range r.containers {
		if b.sandbox == s.Id && b.st.Metadata.Name == c.Metadata.Name && b.st.Metadata.Attempt == c.Metadata.Attempt {
			return nil, status.Errorf(codes.AlreadyExists, "container %s, attempt %d, is %s", c.Metadata.Name, c.Metadata.Attempt, b.st.Id)
		}
	}
	r.serial++
	id := fmt.Sprintf("container-%d", r.serial)
	r.containers[id] = &box{sandbox: s.Id, command: c.Command, exec: map[string]int32{}, done: make(chan struct{}),
		st: &runtimeapi.ContainerStatus{Id: id, Metadata: c.Metadata, State: runtimeapi.ContainerState_CONTAINER_CREATED, CreatedAt: time.Now().UnixNano() + int64(r.serial),
			Image: &runtimeapi.ImageSpec{Image: c.Image.UserSpecifiedImage}, ImageRef: c.Image.Image, Labels: c.Labels, Annotations: c.Annotations, Mounts: c.Mounts}}
	r.tellLocked(s, id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &runtimeapi.CreateContainerResponse{ContainerId: id}, nil
}

// StartContainer starts a container. Its command says what it does:
//
//	run                  runs until it is asked to end, ends with 0
//	deaf                 runs until it is killed
//	exit CODE [AFTER]    ends with a code, at once or after a while
//	missing              cannot be started
func (r *Runtime) StartContainer(_ context.Context, in *runtimeapi.StartContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.containers[in.ContainerId]
	if b == nil {
		return nil, notFound("container", in.ContainerId)
	}
	if err := r.callLocked("StartContainer", b.st.Metadata.Name); err != nil {
		return nil, err
	}
	now := time.Now().UnixNano()
	if b.command[0] == "missing" {
		r.set(b, func(st *runtimeapi.ContainerStatus) {
			st.State, st.FinishedAt, st.ExitCode, st.Reason, st.Message = runtimeapi.ContainerState_CONTAINER_EXITED, now, 128, "StartError", "no such command"
		})
		close(b.done)
		return nil, status.Errorf(codes.Unknown, "no such command")
	}
	r.set(b, func(st *runtimeapi.ContainerStatus) {
		st.State, st.StartedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, now
	})
	r.tellLocked(r.sandboxes[b.sandbox], b.st.Id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	if b.command[0] == "exit" {
		after := time.Duration(0)
		if len(b.command) > 2 {
			var err error
			if after, err = time.ParseDuration(b.command[2]); err != nil {
				panic(err)
			}
		}
		b.die = time.AfterFunc(after, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if b.st.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
				r.endLocked(b, atoi(b.command[1]))
			}
		})
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

// set replaces a container's status: what was handed out stays as it was.
func (r *Runtime) set(b *box, change func(*runtimeapi.ContainerStatus)) {
	o := b.st
	n := &runtimeapi.ContainerStatus{Id: o.Id, Metadata: o.Metadata, State: o.State, CreatedAt: o.CreatedAt, StartedAt: o.StartedAt, FinishedAt: o.FinishedAt,
		ExitCode: o.ExitCode, Image: o.Image, ImageRef: o.ImageRef, Reason: o.Reason, Message: o.Message, Labels: o.Labels, Annotations: o.Annotations, Mounts: o.Mounts}
	change(n)
	b.st = n
}

func (r *Runtime) endLocked(b *box, exit int32) {
	if b.die != nil {
		b.die.Stop()
	}
	reason := "Completed"
	if exit != 0 {
		reason = "Error"
	}
	r.set(b, func(st *runtimeapi.ContainerStatus) {
		st.State, st.FinishedAt, st.ExitCode, st.Reason = runtimeapi.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), exit, reason
	})
	close(b.done)
	r.tellLocked(r.sandboxes[b.sandbox], b.st.Id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// StopContainer asks a container to end, and kills it after the timeout.
func (r *Runtime) StopContainer(ctx context.Context, in *runtimeapi.StopContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error) {
	r.mu.Lock()
	b := r.containers[in.ContainerId]
	if b == nil {
		r.mu.Unlock()
		return nil, notFound("container", in.ContainerId)
	}
	if err := r.callLocked("StopContainer", b.st.Metadata.Name); err != nil {
		r.mu.Unlock()
		return nil, err
	}
	if b.st.State == runtimeapi.ContainerState_CONTAINER_RUNNING && b.command[0] != "deaf" {
		exit := int32(143)
		if b.command[0] == "run" {
			exit = 0
		}
		r.endLocked(b, exit)
	}
	over := b.st.State != runtimeapi.ContainerState_CONTAINER_RUNNING
	r.mu.Unlock()
	if over {
		return &runtimeapi.StopContainerResponse{}, nil
	}
	timer := time.NewTimer(time.Duration(in.Timeout) * time.Second)
	defer timer.Stop()
	select {
	case <-b.done:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-timer.C:
		r.mu.Lock()
		if b.st.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			r.endLocked(b, 137)
		}
		r.mu.Unlock()
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// UpdateContainerResources notes the call.
func (r *Runtime) UpdateContainerResources(_ context.Context, in *runtimeapi.UpdateContainerResourcesRequest, _ ...grpc.CallOption) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.containers[in.ContainerId]
	if b == nil {
		return nil, notFound("container", in.ContainerId)
	}
	if err := r.callLocked("UpdateContainerResources", b.st.Metadata.Name); err != nil {
		return nil, err
	}
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// ContainerStats says that a container uses 100 MiB of memory.
func (r *Runtime) ContainerStats(_ context.Context, in *runtimeapi.ContainerStatsRequest, _ ...grpc.CallOption) (*runtimeapi.ContainerStatsResponse, error) {
	return &runtimeapi.ContainerStatsResponse{Stats: &runtimeapi.ContainerStats{Memory: &runtimeapi.MemoryUsage{UsageBytes: &runtimeapi.UInt64Value{Value: 100 << 20}}}}, nil
}

// RemoveContainer removes a container.
func (r *Runtime) RemoveContainer(_ context.Context, in *runtimeapi.RemoveContainerRequest, _ ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.containers[in.ContainerId]
	if b == nil {
		return &runtimeapi.RemoveContainerResponse{}, nil
	}
	if err := r.callLocked("RemoveContainer", b.st.Metadata.Name); err != nil {
		return nil, err
	}
	if b.st.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
		r.endLocked(b, 137)
	}
	delete(r.containers, in.ContainerId)
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// ContainerStatus is a container's.
func (r *Runtime) ContainerStatus(_ context.Context, in *runtimeapi.ContainerStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.containers[in.ContainerId]
	if b == nil {
		return nil, notFound("container", in.ContainerId)
	}
	return &runtimeapi.ContainerStatusResponse{Status: b.st}, nil
}

// ExecSync exits with what SetExec said, else with 0.
func (r *Runtime) ExecSync(_ context.Context, in *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.containers[in.ContainerId]
	if b == nil || b.st.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, notFound("container", in.ContainerId)
	}
	command := strings.Join(in.Cmd, " ")
	return &runtimeapi.ExecSyncResponse{ExitCode: b.exec[command], Stdout: []byte("ran " + command)}, nil
}

// ImageStatus knows the images that are there.
func (r *Runtime) ImageStatus(_ context.Context, in *runtimeapi.ImageStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := strings.TrimPrefix(in.Image.Image, "id-of-")
	if !r.images[name] {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "id-of-" + name, RepoTags: []string{name}, Size: 1000, Uid: &runtimeapi.Int64Value{}}}, nil
}

// PullImage brings an image whose name does not contain "missing".
func (r *Runtime) PullImage(_ context.Context, in *runtimeapi.PullImageRequest, _ ...grpc.CallOption) (*runtimeapi.PullImageResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.callLocked("PullImage", in.Image.Image); err != nil {
		return nil, err
	}
	if strings.Contains(in.Image.Image, "missing") {
		return nil, notFound("image", in.Image.Image)
	}
	r.images[in.Image.Image] = true
	return &runtimeapi.PullImageResponse{ImageRef: "id-of-" + in.Image.Image}, nil
}

// ListImages lists the images.
func (r *Runtime) ListImages(context.Context, *runtimeapi.ListImagesRequest, ...grpc.CallOption) (*runtimeapi.ListImagesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &runtimeapi.ListImagesResponse{}
	for name := range r.images {
		out.Images = append(out.Images, &runtimeapi.Image{Id: "id-of-" + name, RepoTags: []string{name}, Size: 1000})
	}
	return out, nil
}
