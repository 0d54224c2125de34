package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// parallelStops bounds how many pods Down stops at once.
const parallelStops = 8

// Down stops every pod of the instance and the daemon, and removes what they
// left: processes, mounts, network namespaces, cgroups and state. Images and
// the unpacked programs stay, so that the next start is quick. It fails at
// once if a Supervisor is running.
//
// It works in two rounds. The first asks: containers get their grace period,
// and CNI plugins give back addresses and links; a daemon is started for it if
// containers are there and none runs. The second looks at what is there in
// fact and ends it by force, whatever the first achieved. So Down may be
// repeated, and an instance without a working daemon can be taken down too.
func (s *Supervisor) Down(ctx context.Context) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.stopPods(ctx); err != nil {
		s.log.Warn("pods are removed by force", "reason", err)
	}
	return errors.Join(
		endAll(ctx, s.layout.isDaemon, daemonGrace),
		s.killContainers(ctx),
		unmountBelow(s.layout.run),
		unmountBelow(s.layout.root()),
		removeCgroups(ctx, s.options.CgroupParent),
		removeCgroups(ctx, s.layout.cgroup),
		forgetNetworks(cniResults, s.layout.run),
		os.RemoveAll(s.layout.run),
	)
}

// stopPods stops and removes all pods through CRI.
func (s *Supervisor) stopPods(ctx context.Context) error {
	idle, err := s.idle()
	if err != nil || idle {
		return err
	}
	d, err := s.prepare()
	if err != nil {
		return err
	}
	p, _, err := d.ensure(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	ctx, release := p.bind(ctx)
	defer release()
	started, cancel := context.WithTimeoutCause(ctx, startTimeout, errSlow)
	defer cancel()
	conn, err := dial(s.layout.socket())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := awaitCRI(started, conn); err != nil {
		return err
	}
	return stopAll(ctx, conn, s.options.Grace)
}

// idle tells whether nothing of the instance runs.
func (s *Supervisor) idle() (bool, error) {
	found, err := findProcesses(func(args []string) bool {
		return s.layout.isDaemon(args) || s.layout.isShim(args)
	})
	for _, p := range found {
		p.close()
	}
	return len(found) == 0, err
}

func stopAll(ctx context.Context, conn grpc.ClientConnInterface, grace time.Duration) error {
	client := cri.NewRuntimeServiceClient(conn)
	pods, err := client.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	containers, err := client.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return err
	}
	byPod := make(map[string][]string)
	for _, c := range containers.Containers {
		byPod[c.PodSandboxId] = append(byPod[c.PodSandboxId], c.Id)
	}
	return parallel(pods.Items, func(pod *cri.PodSandbox) error {
		// Errors of the polite part do not matter if the pod goes.
		_ = parallel(byPod[pod.Id], func(id string) error {
			_, err := client.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: int64((grace + time.Second - 1) / time.Second)})
			return err
		})
		if _, err := client.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: pod.Id}); err != nil {
			return fmt.Errorf("stop pod %s/%s: %w", pod.GetMetadata().GetNamespace(), pod.GetMetadata().GetName(), err)
		}
		_, err := client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: pod.Id})
		return err
	})
}

func parallel[T any](items []T, do func(T) error) error {
	var (
		group sync.WaitGroup
		slots = make(chan struct{}, parallelStops)
		errs  = make([]error, len(items))
	)
	for i, item := range items {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(item)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// killContainers ends the shims, and then what runc still has on record: a
// container's processes are not its shim's children once the shim is dead, but
// runc knows them, and their cgroups.
func (s *Supervisor) killContainers(ctx context.Context) error {
	shims, err := findProcesses(s.layout.isShim)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range shims {
		// No SIGTERM: a shim that is asked to end waits for its containers.
		if err := p.signal(syscall.SIGKILL); err != nil {
			errs = append(errs, err)
		}
		patient, cancel := context.WithTimeout(ctx, daemonGrace)
		errs = append(errs, p.wait(patient))
		cancel()
		p.close()
	}
	records, err := filepath.Glob(filepath.Join(s.layout.run, "runc", "*", "*"))
	if err != nil || len(records) == 0 {
		return errors.Join(append(errs, err)...)
	}
	paths, err := Unpack(s.layout.data)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, record := range records {
		root, id := filepath.Split(record)
		out, err := exec.CommandContext(ctx, paths.Runc, "--root", root, "delete", "--force", id).CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("runc delete %s: %w: %s", id, err, out))
		}
	}
	return errors.Join(errs...)
}
