package cri_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri/critest"
)

// counting counts how often details are asked for.
type counting struct {
	*critest.Runtime
	details int
}

func (c *counting) ContainerStatus(ctx context.Context, in *runtimeapi.ContainerStatusRequest, o ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	c.details++
	return c.Runtime.ContainerStatus(ctx, in, o...)
}

func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		rt := &counting{Runtime: critest.New()}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
		sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Uid: "u"}, Labels: cri.PodLabels(pod, "me")}
		b, err := rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandbox})
		if err != nil {
			t.Fatal(err)
		}
		c := &v1.Container{Name: "c", Image: "i", TerminationMessagePath: "/dev/termination-log"}
		for n := range 2 {
			made, err := rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: b.PodSandboxId, Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "c", Attempt: uint32(n)}, Image: &runtimeapi.ImageSpec{Image: "i"}, Command: []string{"exit", "3"},
				Labels: cri.ContainerLabels(pod, "c", "me"), Annotations: cri.ContainerAnnotations(pod, c, int32(n)),
				Mounts: []*runtimeapi.Mount{{ContainerPath: "/dev/termination-log", HostPath: "/host"}}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		st, err := cri.Observe(ctx, rt, "u", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := st.Latest("c")
		if got == nil || got.Restarts != 1 || !got.Exited() || got.ExitCode != 3 || got.Hash != cri.Hash(c) || got.TerminationPath != "/host" || got.SandboxID != b.PodSandboxId {
			t.Errorf("latest is %+v", got)
		}
		if ready := st.ReadySandbox(); ready == nil || len(ready.IPs) != 1 || !st.Alive() || len(st.Containers) != 2 {
			t.Errorf("state is %+v", st)
		}
		before := rt.details
		if _, err = cri.Observe(ctx, rt, "u", st); err != nil || rt.details != before {
			t.Errorf("details of dead containers were asked for %d times (%v)", rt.details-before, err)
		}
		if other, err := cri.Observe(ctx, rt, "other", nil); err != nil || !other.Empty() {
			t.Errorf("another pod has %+v, %v", other, err)
		}
		if _, err := rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: b.PodSandboxId}); err != nil {
			t.Fatal(err)
		}
		if st, err = cri.Observe(ctx, rt, "u", st); err != nil || st.Alive() || st.ReadySandbox() != nil {
			t.Errorf("stopped: %+v, %v", st, err)
		}
	})
}

func TestHash(t *testing.T) {
	a := &v1.Container{Name: "c", Image: "i:1"}
	b := a.DeepCopy()
	b.Env = []v1.EnvVar{{Name: "X"}}
	if cri.Hash(a) != cri.Hash(b) {
		t.Error("the hash follows what cannot change")
	}
	b.Image = "i:2"
	if cri.Hash(a) == cri.Hash(b) {
		t.Error("the hash does not follow the image")
	}
}

type version struct {
	runtimeapi.UnimplementedRuntimeServiceServer
}

func (version) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "it"}, nil
}

func TestDial(t *testing.T) {
	for _, bad := range []string{"", "tcp://x:1", "unix://"} {
		if c, err := cri.Dial(bad, ""); err == nil {
			c.Close()
			t.Errorf("%q was taken", bad)
		}
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(s, version{})
	go s.Serve(l)
	defer s.Stop()
	c, err := cri.Dial("unix://"+path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	v, err := c.Version(t.Context(), &runtimeapi.VersionRequest{})
	if err != nil || v.RuntimeName != "it" {
		t.Errorf("version: %v %v", v, err)
	}
	if _, err := c.ListImages(t.Context(), &runtimeapi.ListImagesRequest{}); err == nil || cri.IsNotFound(err) || cri.Message(err) == err.Error() {
		t.Errorf("a call that is not there: %v", err)
	}
}
