package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/containerd"
	"github.com/setpoint-project/setpoint/internal/dns/feed"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/announce"
)

// stopLimit is what the cluster's process gets to end.
const stopLimit = 30 * time.Second

// Down stops the cluster's process if it runs, its containers, and takes its
// network away. With purge the data folder goes as well. What is not there is
// no error; Down may be repeated.
func Down(ctx context.Context, o Options, purge bool) error {
	// A process may be about to make its cluster: it has the lock by then.
	if _, err := LoadState(o.DataDir); errors.Is(err, ErrNoCluster) {
		if _, locked := os.Stat(filepath.Join(o.DataDir, "lock")); locked != nil && !purge {
			return err
		} else if locked != nil {
			return removeRemains(o.DataDir, err)
		}
	}
	lock, err := takeOver(ctx, o.DataDir)
	if err != nil {
		return err
	}
	defer lock.release()
	state, err := LoadState(o.DataDir)
	if errors.Is(err, ErrNoCluster) && purge {
		return removeData(o.DataDir)
	}
	if err != nil {
		return err
	}
	var errs []error
	if len(state.PodCIDRs) > 0 {
		if os.Geteuid() != 0 {
			return errors.New("this machine is a node of the cluster; taking it down needs root")
		}
		errs = append(errs, feed.Stop(ctx, dnsSocket(state.Instance)))
		supervisor, err := newSupervisor(&o, state)
		if err == nil {
			err = supervisor.Down(ctx)
		}
		if err != nil && !errors.Is(err, containerd.ErrAbsent) {
			errs = append(errs, fmt.Errorf("stop the containers: %w", err))
		}
		errs = append(errs, volume.Release(filepath.Join(o.DataDir, "kubelet")))
		// Addresses of pods that were ended by force are still taken there.
		errs = append(errs, os.RemoveAll(filepath.Join(o.DataDir, "cni", "ipam")))
		host := &network.Host{Config: network.Config{Instance: state.Instance, ClusterCIDRs: state.ClusterCIDRs, ServiceCIDRs: state.ServiceCIDRs, PodCIDRs: state.PodCIDRs}}
		errs = append(errs, announce.Withdraw(host.Bridge()), host.Down())
	}
	if err := errors.Join(errs...); err != nil || !purge {
		return err
	}
	return removeData(o.DataDir)
}

// removeRemains deletes a folder that has nothing but what a start leaves that
// is refused. In any other that is no data folder, names such as bin are not
// ours: then it returns refusal.
func removeRemains(dir string, refusal error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "setpoint.log" {
			return refusal
		}
	}
	return removeNamed(dir, "setpoint.log")
}

// removeData deletes a data folder. What tells that it is one goes last, so
// that it may be done again when it is cut short.
func removeData(dir string) error {
	return removeNamed(dir, "store", "pki", "token", "kubeconfigs", "bin", "containerd", "cni", "kubelet", "volumes", "logs", "setpoint.log", "kubectl", "kubectl-*",
		".token.*", ".cluster.json.*", // which a kill while they were written has left
		"cluster.json", "lock")
}

// removeNamed deletes what has such names in a folder, and the folder when
// nothing else is there: that is not ours.
func removeNamed(dir string, patterns ...string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, pattern := range patterns {
		var errs []error
		for _, e := range entries {
			if ok, _ := filepath.Match(pattern, e.Name()); ok {
				errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// takeOver stops the process that has the data folder, if one does, and takes
// the folder itself, so that nothing starts there while it is taken down.
func takeOver(ctx context.Context, dir string) (*dataLock, error) {
	limit := time.Now().Add(stopLimit)
	for stopped := 0; ; {
		l, err := tryLock(dir, true)
		var used *inUse
		if err == nil || !errors.As(err, &used) {
			return l, err
		}
		if time.Now().After(limit) {
			return nil, fmt.Errorf("%w; it did not end within %s", err, stopLimit)
		}
		if used.pid != 0 && used.pid != stopped {
			if !used.command { // whatever its file is called, it does more than this cluster
				exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", used.pid))
				return nil, fmt.Errorf("%s is in use by process %d (%s), a program that has a cluster in it: end that one first", dir, used.pid, exe)
			}
			if err := syscall.Kill(used.pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return nil, fmt.Errorf("stop process %d: %w", used.pid, err)
			}
			stopped = used.pid
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
