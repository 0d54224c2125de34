package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpoint-project/setpoint/internal/containerd"
	"github.com/setpoint-project/setpoint/internal/network"
)

// Down stops the cluster's process if it runs, its containers, and takes its
// network away. With purge the data folder goes as well. What is not there is
// no error; Down may be repeated.
func Down(ctx context.Context, o Options, purge bool) error {
	state, err := LoadState(o.DataDir)
	if errors.Is(err, ErrNoCluster) && purge {
		return removeData(o.DataDir)
	}
	if err != nil {
		return err
	}
	if err := stopProcess(ctx, state); err != nil {
		return err
	}
	var errs []error
	if state.PodCIDR.IsValid() {
		if os.Geteuid() != 0 {
			return errors.New("this machine is a node of the cluster; taking it down needs root")
		}
		supervisor, err := newSupervisor(&o, state)
		if err == nil {
			err = supervisor.Down(ctx)
		}
		if err != nil && !errors.Is(err, containerd.ErrAbsent) {
			errs = append(errs, fmt.Errorf("stop the containers: %w", err))
		}
		errs = append(errs, unmountBelow(filepath.Join(o.DataDir, "kubelet")))
		// Addresses of pods that were ended by force are still taken there.
		errs = append(errs, os.RemoveAll(filepath.Join(o.DataDir, "cni", "ipam")))
		host := &network.Host{Config: network.Config{Instance: state.Instance, ClusterCIDR: state.ClusterCIDR, ServiceCIDR: state.ServiceCIDR, PodCIDR: state.PodCIDR}}
		errs = append(errs, host.Down())
	}
	if err := errors.Join(errs...); err != nil || !purge {
		return err
	}
	return removeData(o.DataDir)
}

// removeData deletes a data folder, if it is one.
func removeData(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, name := range []string{"cluster.json", "store", "pki", "token", "kubeconfigs", "bin", "containerd", "cni", "kubelet", "logs", "setpoint.log", "kubectl"} {
		known[name] = true
	}
	var errs []error
	for _, e := range entries {
		// Nothing else in the folder is ours to delete.
		if known[e.Name()] || strings.HasPrefix(e.Name(), "kubectl-") {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// stopProcess ends the process that runs the cluster, if one does.
func stopProcess(ctx context.Context, s *State) error {
	if !runs(s) {
		return nil
	}
	if err := syscall.Kill(s.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", s.PID, err)
	}
	limit := time.After(30 * time.Second)
	for runs(s) {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limit:
			return fmt.Errorf("process %d did not end within 30 s of SIGTERM", s.PID)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// runs tells whether the process that the state names is a setpoint on this
// data folder still, and not another that has got its number meanwhile.
func runs(s *State) bool {
	if s.PID == 0 {
		return false
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.PID))
	if err != nil || !strings.HasPrefix(filepath.Base(exe), "setpoint") {
		return false
	}
	store := filepath.Join(filepath.Dir(s.path), "store")
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID))
	if err != nil {
		return false
	}
	if abs, err := filepath.Abs(store); err == nil {
		store = abs
	}
	for _, fd := range fds {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", s.PID, fd.Name()))
		if err == nil && strings.HasPrefix(to, store+"/") {
			return true
		}
	}
	return false
}

// unmountBelow takes away every mount below dir: volumes of pods.
func unmountBelow(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			points = append(points, fields[4])
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(points))) // the inner ones first
	var errs []error
	for _, p := range points {
		if err := unix.Unmount(p, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// RuntimeSocket is where the container runtime of a data folder listens.
func RuntimeSocket(dataDir string) (string, error) {
	state, err := LoadState(dataDir)
	if err != nil {
		return "", err
	}
	if state.PodCIDR == (netip.Prefix{}) {
		return "", fmt.Errorf("this machine is no node of the cluster in %s: it has no images", dataDir)
	}
	supervisor, err := newSupervisor(&Options{DataDir: dataDir}, state)
	if err != nil {
		return "", err
	}
	return supervisor.Socket(), nil
}
