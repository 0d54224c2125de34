package containerd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/mounts"
)

// patience bounds what should take milliseconds; it only decides how long a
// failing test takes.
const patience = 5 * time.Minute

// instance is a real runtime for a test.
type instance struct {
	testing.TB
	options Options
	conn    *grpc.ClientConn
	cri     cri.RuntimeServiceClient
	images  cri.ImageServiceClient
	stop    func() // ends the last run
}

// newInstance makes an instance that is taken down when the test ends.
func newInstance(t testing.TB, name string) *instance {
	t.Helper()
	needRoot(t)
	id := fmt.Sprintf("t%d-%s", os.Getpid(), name)
	options := Options{
		DataDir:      t.TempDir(),
		Instance:     id,
		CgroupParent: "/setpoint-" + id,
		Grace:        time.Second,
		Logger:       slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	conn, err := dial(Socket(id))
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{TB: t, options: options, conn: conn,
		cri: cri.NewRuntimeServiceClient(conn), images: cri.NewImageServiceClient(conn)}
	i.writeCNI()
	t.Cleanup(func() {
		conn.Close()
		i.down()
	})
	return i
}

// writeCNI gives the pods a bridge of their own, without a way out.
func (i *instance) writeCNI() {
	i.Helper()
	dir := filepath.Join(i.options.DataDir, "cni", "net.d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		i.Fatal(err)
	}
	conf := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
		"type": "bridge", "bridge": "sp%d", "isGateway": true,
		"ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.199.0.0/24"}]]}
	}]}`, os.Getpid()%100000, filepath.Join(i.options.DataDir, "cni", "ipam"))
	if err := os.WriteFile(filepath.Join(dir, "10-pods.conflist"), []byte(conf), 0o644); err != nil {
		i.Fatal(err)
	}
}

func (i *instance) down() {
	i.Helper()
	s, err := New(i.options)
	if err != nil {
		i.Fatal(err)
	}
	if err := s.Down(context.Background()); err != nil {
		i.Errorf("Down: %v", err)
	}
}

func (i *instance) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	i.Cleanup(cancel)
	return ctx
}

// run starts a supervisor and waits until it is ready. The function it returns
// ends Run.
func (i *instance) run() (stop func()) {
	i.Helper()
	s, err := New(i.options)
	if err != nil {
		i.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-done:
		i.Fatalf("Run ended: %v", err)
	case <-time.After(patience):
		i.Fatal("the runtime is not ready")
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			i.Errorf("Run: %v", err)
		}
	}
	i.Cleanup(stop)
	i.stop = stop
	return stop
}

func (i *instance) stopAndDown() {
	i.Helper()
	i.stop()
	i.down()
}

// daemonPID returns the pid of the one daemon.
func (i *instance) daemonPID() int {
	i.Helper()
	found := i.processes(i.layout().isDaemon)
	if len(found) != 1 {
		i.Fatalf("found %d daemons, want 1", len(found))
	}
	return found[0]
}

func (i *instance) layout() layout {
	l, err := i.options.layout()
	if err != nil {
		i.Fatal(err)
	}
	return l
}

func (i *instance) processes(match func([]string) bool) []int {
	i.Helper()
	found, err := findProcesses(match)
	if err != nil {
		i.Fatal(err)
	}
	var pids []int
	for _, p := range found {
		pids = append(pids, p.pid)
		p.close()
	}
	return pids
}

// pod runs a pod with one container of the demo image, which serves on 8080.
func (i *instance) pod(name string) (sandbox, container string) {
	i.Helper()
	ctx := i.context()
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: "test", Uid: name},
		Hostname:     name,
		LogDirectory: filepath.Join(i.options.DataDir, "logs"),
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    i.options.CgroupParent + "/pod-" + name,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER}},
		},
	}
	s, err := i.cri.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		i.Fatalf("RunPodSandbox: %v", err)
	}
	c, err := i.cri.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: s.PodSandboxId, SandboxConfig: config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "demo"},
			Image:    &cri.ImageSpec{Image: demoImage},
			LogPath:  name + ".log",
			Envs:     []*cri.KeyValue{{Key: "DRAIN", Value: []byte("0s")}},
			Linux: &cri.LinuxContainerConfig{Resources: &cri.LinuxContainerResources{
				MemoryLimitInBytes: 64 << 20, CpuShares: 100, OomScoreAdj: 1000,
			}},
		},
	})
	if err != nil {
		i.Fatalf("CreateContainer: %v", err)
	}
	if _, err := i.cri.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
		i.Fatalf("StartContainer: %v", err)
	}
	return s.PodSandboxId, c.ContainerId
}

func (i *instance) state(container string) cri.ContainerState {
	i.Helper()
	answer, err := i.cri.ContainerStatus(i.context(), &cri.ContainerStatusRequest{ContainerId: container})
	if err != nil {
		i.Fatalf("ContainerStatus: %v", err)
	}
	return answer.Status.State
}

// traces lists everything on the machine that belongs to the instance.
func (i *instance) traces() []string {
	i.Helper()
	var found []string
	l := i.layout()
	for _, pid := range i.processes(func(args []string) bool {
		return strings.Contains(strings.Join(args, " "), l.data) || strings.Contains(strings.Join(args, " "), l.run)
	}) {
		found = append(found, fmt.Sprintf("process %d: %q", pid, processArgs(pid)))
	}
	table, err := mounts.Table()
	if err != nil {
		i.Fatal(err)
	}
	for _, m := range table {
		if strings.HasPrefix(m.Path, l.data+"/") || strings.HasPrefix(m.Path, l.run+"/") {
			found = append(found, "mount "+m.Path)
		}
	}
	roots, err := cgroupRoots()
	if err != nil {
		i.Fatal(err)
	}
	for _, root := range roots {
		for _, name := range []string{i.options.CgroupParent, l.cgroup} {
			if _, err := os.Stat(filepath.Join(root, name)); err == nil {
				found = append(found, "cgroup "+filepath.Join(root, name))
			}
		}
	}
	if _, err := os.Stat(l.run); err == nil {
		found = append(found, "folder "+l.run)
	}
	notes, err := filepath.Glob(cniResults + "/*")
	if err != nil {
		i.Fatal(err)
	}
	for _, note := range notes {
		if data, err := os.ReadFile(note); err == nil && strings.Contains(string(data), l.run+"/") {
			found = append(found, "note "+note)
		}
	}
	links, err := os.ReadDir("/sys/class/net")
	if err == nil {
		for _, link := range links {
			if strings.HasPrefix(link.Name(), "veth") {
				found = append(found, "link "+link.Name())
			}
		}
	}
	return found
}
