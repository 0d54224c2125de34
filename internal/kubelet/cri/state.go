package cri

import (
	"context"
	"slices"
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sandbox is one pod sandbox in the runtime.
type Sandbox struct {
	ID          string
	Attempt     uint32
	Ready       bool
	HostNetwork bool
	CreatedAt   time.Time
	IPs         []string // as the runtime tells them; empty when HostNetwork or not Ready
}

// Container is one container in the runtime, dead or alive.
type Container struct {
	ID         string
	SandboxID  string
	Name       string
	State      runtimeapi.ContainerState
	Restarts   int32 // how many containers of this name came before
	Hash       string
	CreatedAt  time.Time
	StartedAt  time.Time // zero: never started
	FinishedAt time.Time // zero: runs
	ExitCode   int32
	Reason     string // the runtime's word for how it ended
	Message    string
	Image      string // as asked for
	ImageID    string // as resolved: a digest
	// Images are those mounted as volumes, by the path where they are mounted:
	// what people know them by.
	Images  map[string]string
	LogPath string
	// TerminationPath is where the file of the termination message lies on
	// the host; empty when the container has none.
	TerminationPath   string
	TerminationPolicy string
	UID, GID          int64
	Groups            []int64
	HasUser           bool // UID, GID and Groups are known
}

// Running tells whether the container runs.
func (c *Container) Running() bool { return c.State == runtimeapi.ContainerState_CONTAINER_RUNNING }

// Exited tells whether the container ran, or failed to, and is dead.
func (c *Container) Exited() bool { return c.State == runtimeapi.ContainerState_CONTAINER_EXITED }

// State is what one pod has in the runtime, newest first. It is immutable.
type State struct {
	Sandboxes  []Sandbox
	Containers []Container
}

// Latest is the newest container of a name, or nil.
func (s *State) Latest(name string) *Container {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}

// Container is the container with an id, or nil.
func (s *State) Container(id string) *Container {
	for i := range s.Containers {
		if s.Containers[i].ID == id {
			return &s.Containers[i]
		}
	}
	return nil
}

// ReadySandbox is the newest sandbox if it is ready, else nil.
func (s *State) ReadySandbox() *Sandbox {
	if len(s.Sandboxes) > 0 && s.Sandboxes[0].Ready {
		return &s.Sandboxes[0]
	}
	return nil
}

// Empty tells whether the pod has nothing in the runtime.
func (s *State) Empty() bool { return len(s.Sandboxes) == 0 && len(s.Containers) == 0 }

// Alive tells whether anything of the pod runs: a container or a sandbox.
func (s *State) Alive() bool {
	return slices.ContainsFunc(s.Sandboxes, func(b Sandbox) bool { return b.Ready }) ||
		slices.ContainsFunc(s.Containers, func(c Container) bool {
			return !c.Exited() && c.State != runtimeapi.ContainerState_CONTAINER_CREATED
		})
}

// Observe takes a picture of one pod. Details (addresses, exit codes) are
// asked for only where prev, the picture before, does not know them already:
// what is dead stays as it died.
func Observe(ctx context.Context, rt Runtime, uid string, prev *State) (*State, error) {
	if prev == nil {
		prev = &State{}
	}
	selector := map[string]string{LabelPodUID: uid}
	sandboxes, err := rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: selector}})
	if err != nil {
		return nil, err
	}
	containers, err := rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: selector}})
	if err != nil {
		return nil, err
	}
	s := &State{}
	for _, item := range sandboxes.Items {
		b, err := observeSandbox(ctx, rt, item, prev)
		if IsNotFound(err) {
			continue // removed meanwhile
		} else if err != nil {
			return nil, err
		}
		s.Sandboxes = append(s.Sandboxes, b)
	}
	for _, item := range containers.Containers {
		c, err := observeContainer(ctx, rt, item, prev)
		if IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		s.Containers = append(s.Containers, c)
	}
	slices.SortFunc(s.Sandboxes, func(a, b Sandbox) int { return b.CreatedAt.Compare(a.CreatedAt) })
	slices.SortFunc(s.Containers, func(a, b Container) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return s, nil
}

func observeSandbox(ctx context.Context, rt Runtime, item *runtimeapi.PodSandbox, prev *State) (Sandbox, error) {
	ready := item.State == runtimeapi.PodSandboxState_SANDBOX_READY
	for _, had := range prev.Sandboxes {
		if had.ID == item.Id && had.Ready == ready {
			return had, nil
		}
	}
	resp, err := rt.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: item.Id})
	if err != nil {
		return Sandbox{}, err
	}
	st := resp.Status
	b := Sandbox{
		ID:          st.Id,
		Attempt:     st.GetMetadata().GetAttempt(),
		Ready:       st.State == runtimeapi.PodSandboxState_SANDBOX_READY,
		HostNetwork: st.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
		CreatedAt:   time.Unix(0, st.CreatedAt),
	}
	if ip := st.GetNetwork().GetIp(); ip != "" {
		b.IPs = append(b.IPs, ip)
	}
	for _, ip := range st.GetNetwork().GetAdditionalIps() {
		b.IPs = append(b.IPs, ip.Ip)
	}
	return b, nil
}

func observeContainer(ctx context.Context, rt Runtime, item *runtimeapi.Container, prev *State) (Container, error) {
	if had := prev.Container(item.Id); had != nil && had.State == item.State {
		return *had, nil
	}
	resp, err := rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: item.Id})
	if err != nil {
		return Container{}, err
	}
	st := resp.Status
	c := Container{
		ID:        st.Id,
		SandboxID: item.PodSandboxId,
		Name:      st.Labels[LabelContainerName],
		State:     st.State,
		Hash:      st.Annotations[annotationHash],
		CreatedAt: time.Unix(0, st.CreatedAt),
		ExitCode:  st.ExitCode,
		Reason:    st.Reason,
		Message:   st.Message,
		Image:     st.GetImage().GetImage(),
		ImageID:   st.ImageRef,
		LogPath:   st.LogPath,

		TerminationPolicy: st.Annotations[annotationTerminationPolicy],
	}
	if st.StartedAt > 0 {
		c.StartedAt = time.Unix(0, st.StartedAt)
	}
	if st.FinishedAt > 0 && c.Exited() {
		c.FinishedAt = time.Unix(0, st.FinishedAt)
	}
	if n, err := strconv.ParseInt(st.Annotations[AnnotationRestartCount], 10, 32); err == nil {
		c.Restarts = int32(n)
	}
	if path := st.Annotations[annotationTerminationPath]; path != "" {
		for _, m := range st.Mounts {
			if m.ContainerPath == path {
				c.TerminationPath = m.HostPath
			}
		}
	}
	for _, m := range st.Mounts {
		if ref := m.GetImage().GetImageRef(); ref != "" {
			if c.Images == nil {
				c.Images = map[string]string{}
			}
			c.Images[m.ContainerPath] = ref
		}
	}
	if u := st.GetUser().GetLinux(); u != nil {
		c.UID, c.GID, c.Groups, c.HasUser = u.Uid, u.Gid, u.SupplementalGroups, true
	}
	return c, nil
}
