package containerd

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A container lives on when the daemon is killed and when its supervisor goes
// away, and is there for those that follow.
func TestContainersOutliveDaemonAndSupervisor(t *testing.T) {
	i := newInstance(t, "live")
	stop := i.run()
	sandbox, container := i.pod("web")
	if got := i.state(container); got != cri.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("the container is %v", got)
	}
	url := "http://" + i.podIP(sandbox) + ":8080/"
	wantAnswer(t, url, "demo 1 from web\n")

	// The daemon is killed under a supervisor: it is replaced.
	first := i.daemonPID()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, url, "demo 1 from web\n")
	i.awaitCRI()
	second := i.daemonPID()
	if second == first {
		t.Fatalf("the daemon is still process %d", first)
	}
	if got := i.state(container); got != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("after the daemon was killed the container is %v", got)
	}

	// The supervisor goes: the daemon stays, and the next one takes it over.
	stop()
	if got := i.daemonPID(); got != second {
		t.Errorf("without a supervisor the daemon is process %d, want %d", got, second)
	}
	stop = i.run()
	if got := i.daemonPID(); got != second {
		t.Errorf("the next supervisor runs process %d, want %d taken over", got, second)
	}

	// The daemon is killed while nobody watches.
	stop()
	if err := syscall.Kill(second, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	stop = i.run()
	if got := i.state(container); got != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("after both were gone the container is %v", got)
	}

	// Another configuration: the daemon is replaced, the container stays.
	third := i.daemonPID()
	stop()
	i.options.Debug = true
	stop = i.run()
	if got := i.daemonPID(); got == third {
		t.Errorf("the daemon with the old configuration still runs")
	}
	wantAnswer(t, url, "demo 1 from web\n")

	// StopDaemon ends the daemon, not the container.
	stop()
	i.options.StopDaemon = true
	i.run()()
	if got := i.processes(i.layout().isDaemon); len(got) != 0 {
		t.Errorf("daemons %v run though they should be stopped", got)
	}
	wantAnswer(t, url, "demo 1 from web\n")
	if got := i.processes(i.layout().isShim); len(got) != 1 {
		t.Errorf("shims are %v, want one", got)
	}

	i.down()
	if traces := i.traces(); len(traces) > 0 {
		t.Errorf("Down left:\n%s", strings.Join(traces, "\n"))
	}
}

// Down also works when the daemon's own records are of no use any more.
func TestDownByForce(t *testing.T) {
	i := newInstance(t, "force")
	stop := i.run()
	sandbox, _ := i.pod("web")
	url := "http://" + i.podIP(sandbox) + ":8080/"
	wantAnswer(t, url, "demo 1 from web\n")

	s, err := New(i.options)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Down(i.context()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("Down under a supervisor: %v, want an error", err)
	}

	stop()
	if err := syscall.Kill(i.daemonPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(i.layout().root(), "io.containerd.metadata.v1.bolt")
	if err := os.RemoveAll(database); err != nil {
		t.Fatal(err)
	}
	i.down()
	var traces []string
	for _, trace := range i.traces() {
		// Who gave the address and the link is not on record any more.
		if !strings.HasPrefix(trace, "link ") {
			traces = append(traces, trace)
		}
	}
	if len(traces) > 0 {
		t.Errorf("Down left:\n%s", strings.Join(traces, "\n"))
	}
}

// Two instances on one machine do not see each other.
func TestInstancesSideBySide(t *testing.T) {
	a, b := newInstance(t, "a"), newInstance(t, "b")
	a.run()
	b.run()
	_, container := a.pod("web")
	list, err := b.cri.ListContainers(b.context(), &cri.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Containers) != 0 {
		t.Errorf("the other instance has %v", list.Containers)
	}
	b.stopAndDown()
	if got := a.state(container); got != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("with the other instance down the container is %v", got)
	}
}

func (i *instance) podIP(sandbox string) string {
	i.Helper()
	answer, err := i.cri.PodSandboxStatus(i.context(), &cri.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil {
		i.Fatal(err)
	}
	return answer.Status.GetNetwork().GetIp()
}

func (i *instance) awaitCRI() {
	i.Helper()
	// Unavailable is what the connection says until it has noticed.
	err := poll(i.context(), func() (bool, error) {
		_, err := i.cri.Status(i.context(), &cri.StatusRequest{}, grpc.WaitForReady(true))
		return err == nil, nil
	})
	if err != nil {
		i.Fatal(err)
	}
}

func wantAnswer(t *testing.T, url, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var got string
	err := poll(ctx, func() (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil // not listening yet
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		got = string(body)
		return err == nil, err
	})
	if err != nil || got != want {
		t.Errorf("GET %s: %q, %v; want %q", url, got, err, want)
	}
}
