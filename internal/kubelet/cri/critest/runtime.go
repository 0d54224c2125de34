// Package critest is a container runtime for tests: sandboxes and containers
// in memory, with the behaviour of the real one that the kubelet relies on
// (names are unique, states only go forward, what is not found says so).
//
// What a container does is said by its command: see Runtime.Start.
//
// Concurrency: as a runtime's. Time is the time package's, so it works in a
// testing/synctest bubble.
package critest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is a runtime in memory.
type Runtime struct {
	// What is not implemented panics.
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient

	// Fail, when not nil, may make a call fail: it is asked with the name of
	// each call that changes something.
	Fail func(call string) error
	// IPs, when not nil, are the addresses that a sandbox gets, in the order in
	// which they are told; serial counts sandboxes.
	IPs func(serial int) []string

	mu         sync.Mutex
	serial     int
	sandboxes  map[string]*runtimeapi.PodSandboxStatus
	containers map[string]*box
	images     map[string]bool
	calls      []string
	events     []chan *runtimeapi.ContainerEventResponse
}

type box struct {
	st      *runtimeapi.ContainerStatus
	sandbox string
	command []string
	exec    map[string]int32 // exit codes by command
	die     *time.Timer
	done    chan struct{}
}

// New makes a runtime that has these images.
func New(images ...string) *Runtime {
	r := &Runtime{sandboxes: map[string]*runtimeapi.PodSandboxStatus{}, containers: map[string]*box{}, images: map[string]bool{}}
	for _, i := range images {
		r.images[i] = true
	}
	return r
}

// Calls are the changing calls so far, each with the name it was about.
func (r *Runtime) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Kill ends a running container of a name with a code, as a fault would.
func (r *Runtime) Kill(name string, exit int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.containers {
		if b.st.Metadata.Name == name && b.st.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			r.endLocked(b, exit)
		}
	}
}

// SetExec makes a command in containers of a name exit with a code; others
// exit with 0.
func (r *Runtime) SetExec(name, command string, exit int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.containers {
		if b.st.Metadata.Name == name {
			b.exec[command] = exit
		}
	}
}

// Mounts are those of the newest container of a name: "PATH IMAGE PART MODE"
// for images, "PATH FOLDER MODE" for others.
func (r *Runtime) Mounts(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var newest *box
	for _, b := range r.containers {
		if b.st.Metadata.Name == name && (newest == nil || newest.st.CreatedAt < b.st.CreatedAt) {
			newest = b
		}
	}
	if newest == nil {
		return nil
	}
	var out []string
	for _, m := range newest.st.Mounts {
		what, mode := m.HostPath, "read-write"
		if m.Image != nil {
			what = m.Image.Image + " " + m.ImageSubPath
		}
		if m.Readonly {
			mode = "read-only"
		}
		out = append(out, m.ContainerPath+" "+what+" "+mode)
	}
	return out
}

// AddImage brings an image.
func (r *Runtime) AddImage(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[name] = true
}

// Count is how many sandboxes and containers there are.
func (r *Runtime) Count() (sandboxes, containers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sandboxes), len(r.containers)
}

func (r *Runtime) callLocked(call, about string) error {
	r.calls = append(r.calls, call+" "+about)
	if r.Fail != nil {
		return r.Fail(call)
	}
	return nil
}

func notFound(what, id string) error {
	return status.Errorf(codes.NotFound, "%s %q not found", what, id)
}

// Version is the runtime's.
func (r *Runtime) Version(context.Context, *runtimeapi.VersionRequest, ...grpc.CallOption) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "critest", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

// Status is ready.
func (r *Runtime) Status(context.Context, *runtimeapi.StatusRequest, ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true}}}}, nil
}

// RunPodSandbox makes a sandbox.
func (r *Runtime) RunPodSandbox(_ context.Context, in *runtimeapi.RunPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.callLocked("RunPodSandbox", in.Config.Metadata.Name); err != nil {
		return nil, err
	}
	r.serial++
	id := fmt.Sprintf("sandbox-%d", r.serial)
	for _, s := range r.sandboxes {
		if s.Metadata.Uid == in.Config.Metadata.Uid && s.Metadata.Attempt == in.Config.Metadata.Attempt {
			return nil, status.Errorf(codes.AlreadyExists, "sandbox of %s, attempt %d, is %s", in.Config.Metadata.Name, in.Config.Metadata.Attempt, s.Id)
		}
	}
	st := &runtimeapi.PodSandboxStatus{Id: id, Metadata: in.Config.Metadata, CreatedAt: time.Now().UnixNano(),
		Labels: in.Config.Labels, Annotations: in.Config.Annotations,
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: fmt.Sprintf("10.0.0.%d", r.serial)},
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: in.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()}}}
	if r.IPs != nil {
		for i, ip := range r.IPs(r.serial) {
			if i == 0 {
				st.Network.Ip = ip
			} else {
				st.Network.AdditionalIps = append(st.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
			}
		}
	}
	r.sandboxes[id] = st
	r.tellLocked(st, id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, nil
}

// StopPodSandbox stops a sandbox and kills what runs in it.
func (r *Runtime) StopPodSandbox(_ context.Context, in *runtimeapi.StopPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[in.PodSandboxId]
	if s == nil {
		return nil, notFound("sandbox", in.PodSandboxId)
	}
	if err := r.callLocked("StopPodSandbox", s.Metadata.Name); err != nil {
		return nil, err
	}
	for _, b := range r.containers {
		if b.sandbox == s.Id && b.st.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			r.endLocked(b, 137)
		}
	}
	r.change(s, runtimeapi.PodSandboxState_SANDBOX_NOTREADY)
	r.tellLocked(r.sandboxes[s.Id], s.Id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// change replaces a sandbox's status: what was handed out stays as it was.
func (r *Runtime) change(s *runtimeapi.PodSandboxStatus, state runtimeapi.PodSandboxState) {
	r.sandboxes[s.Id] = &runtimeapi.PodSandboxStatus{Id: s.Id, Metadata: s.Metadata, State: state, CreatedAt: s.CreatedAt,
		Labels: s.Labels, Annotations: s.Annotations, Network: s.Network, Linux: s.Linux}
}

// RemovePodSandbox removes a sandbox with its containers.
func (r *Runtime) RemovePodSandbox(_ context.Context, in *runtimeapi.RemovePodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[in.PodSandboxId]
	if s == nil {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	if err := r.callLocked("RemovePodSandbox", s.Metadata.Name); err != nil {
		return nil, err
	}
	for id, b := range r.containers {
		if b.sandbox == s.Id {
			if b.st.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
				r.endLocked(b, 137)
			}
			delete(r.containers, id)
		}
	}
	delete(r.sandboxes, s.Id)
	r.tellLocked(s, s.Id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus is a sandbox's.
func (r *Runtime) PodSandboxStatus(_ context.Context, in *runtimeapi.PodSandboxStatusRequest, _ ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[in.PodSandboxId]
	if s == nil {
		return nil, notFound("sandbox", in.PodSandboxId)
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: s}, nil
}

func selects(want, have map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

// ListPodSandbox lists sandboxes.
func (r *Runtime) ListPodSandbox(_ context.Context, in *runtimeapi.ListPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &runtimeapi.ListPodSandboxResponse{}
	for _, id := range slices.Sorted(maps.Keys(r.sandboxes)) {
		s := r.sandboxes[id]
		if !selects(in.GetFilter().GetLabelSelector(), s.Labels) || in.GetFilter().GetState() != nil && in.Filter.State.State != s.State {
			continue
		}
		out.Items = append(out.Items, &runtimeapi.PodSandbox{Id: id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, Labels: s.Labels, Annotations: s.Annotations})
	}
	return out, nil
}

// ListContainers lists containers.
func (r *Runtime) ListContainers(_ context.Context, in *runtimeapi.ListContainersRequest, _ ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &runtimeapi.ListContainersResponse{}
	for _, id := range slices.Sorted(maps.Keys(r.containers)) {
		b := r.containers[id]
		if selects(in.GetFilter().GetLabelSelector(), b.st.Labels) {
			out.Containers = append(out.Containers, &runtimeapi.Container{Id: id, PodSandboxId: b.sandbox, Metadata: b.st.Metadata, Image: b.st.Image,
				ImageRef: b.st.ImageRef, State: b.st.State, CreatedAt: b.st.CreatedAt, Labels: b.st.Labels, Annotations: b.st.Annotations})
		}
	}
	slices.SortFunc(out.Containers, func(a, b *runtimeapi.Container) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	return out, nil
}

// GetContainerEvents tells what happens from now on.
func (r *Runtime) GetContainerEvents(ctx context.Context, _ *runtimeapi.GetEventsRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error) {
	c := make(chan *runtimeapi.ContainerEventResponse, 256)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, c)
	return &stream{ctx: ctx, c: c}, nil
}

type stream struct {
	grpc.ClientStream
	ctx context.Context
	c   chan *runtimeapi.ContainerEventResponse
}

func (s *stream) Recv() (*runtimeapi.ContainerEventResponse, error) {
	select {
	case e := <-s.c:
		return e, nil
	case <-s.ctx.Done():
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
}

// tellLocked tells those who listen; who does not keep up misses it.
func (r *Runtime) tellLocked(s *runtimeapi.PodSandboxStatus, id string, t runtimeapi.ContainerEventType) {
	for _, c := range r.events {
		select {
		case c <- &runtimeapi.ContainerEventResponse{ContainerId: id, ContainerEventType: t, PodSandboxStatus: s, CreatedAt: time.Now().UnixNano()}:
		default:
		}
	}
}

func atoi(s string) int32 {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return int32(n)
}
