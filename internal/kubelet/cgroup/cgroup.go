// Package cgroup keeps the control groups of pods, with the cgroupfs driver,
// on hosts with version 1 hierarchies and on those with version 2:
//
//	<parent>/kubepods/pod<UID>              guaranteed
//	<parent>/kubepods/burstable/pod<UID>
//	<parent>/kubepods/besteffort/pod<UID>
//
// The runtime makes a container's group below its pod's. A pod's group holds
// what all its containers together may use.
//
// Concurrency: a Tree may be used from many goroutines.
//
// Failure: a host that does not let groups be made (a container without rights)
// still runs pods, without limits of the whole pod: Ensure says what failed.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Tree is the groups of one kubelet's pods. The zero Tree, of a host that has no
// hierarchies, keeps none.
type Tree struct {
	parent string            // "/setpoint-x"
	v2     string            // mount point, when the host has version 2 only
	v1     map[string]string // controller to mount point, every hierarchy

	mu       sync.Mutex
	requests map[types.UID]int64 // guarded by mu; milli CPUs of burstable pods
}

// ErrNone says that the machine has no control groups.
var ErrNone = errors.New("no cgroup hierarchy is mounted")

// Open finds the hierarchies of this host.
func Open(parent string) (*Tree, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	t := &Tree{parent: filepath.Join("/", parent), v1: map[string]string{}, requests: map[types.UID]int64{}}
	unified := ""
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch f[2] {
		case "cgroup":
			// Controllers are among the mount options; co-mounted ones share
			// a mount point.
			for _, o := range strings.Split(f[3], ",") {
				switch o {
				case "cpu", "cpuset", "memory", "pids", "blkio", "devices", "freezer", "cpuacct", "hugetlb", "net_cls", "net_prio", "perf_event", "rdma", "misc":
					if t.v1[o] == "" {
						t.v1[o] = f[1]
					}
				}
				if strings.HasPrefix(o, "name=") && t.v1[o] == "" {
					t.v1[o] = f[1]
				}
			}
		case "cgroup2":
			unified = f[1]
		}
	}
	switch {
	case t.v1["memory"] != "" || t.v1["cpu"] != "":
		if unified != "" {
			t.v1["unified"] = unified // hybrid: there to be cleaned only
		}
	case unified != "":
		t.v2, t.v1 = unified, nil
	default:
		return nil, ErrNone
	}
	return t, nil
}

// V2 tells whether the host has version 2 only.
func (t *Tree) V2() bool { return t.v2 != "" }

// Parent is the cgroup parent of a pod's containers.
func (t *Tree) Parent(pod *v1.Pod) string {
	return t.path(class(pod), "pod"+string(pod.UID))
}

func (t *Tree) path(class v1.PodQOSClass, name string) string {
	base := filepath.Join(t.parent, "kubepods")
	if class != v1.PodQOSGuaranteed {
		base = filepath.Join(base, strings.ToLower(string(class)))
	}
	return filepath.Join(base, name)
}

// Ensure makes a pod's group and sets its limits.
func (t *Tree) Ensure(pod *v1.Pod) error {
	l := podLimits(pod)
	dir := t.Parent(pod)
	var errs []error
	if t.v2 != "" {
		errs = append(errs, t.ensureV2(dir, l))
	} else {
		for _, ctrl := range []string{"cpu", "memory", "pids"} {
			if t.v1[ctrl] != "" {
				errs = append(errs, t.ensureV1(ctrl, dir, l))
			}
		}
	}
	if class(pod) == v1.PodQOSBurstable {
		t.mu.Lock()
		if t.requests == nil {
			t.requests = map[types.UID]int64{}
		}
		t.requests[pod.UID] = l.RequestMilli
		errs = append(errs, t.burstableLocked())
		t.mu.Unlock()
	}
	if class(pod) == v1.PodQOSBestEffort {
		errs = append(errs, t.setShares(t.path(v1.PodQOSBestEffort, ""), minShares))
	}
	return errors.Join(errs...)
}

// burstableLocked gives burstable pods together the share of what they ask
// for. Callers hold mu.
func (t *Tree) burstableLocked() error {
	var sum int64
	for _, m := range t.requests {
		sum += m
	}
	return t.setShares(t.path(v1.PodQOSBurstable, ""), Shares(sum))
}

func (t *Tree) setShares(dir string, shares int64) error {
	if t.v2 != "" {
		return write(filepath.Join(t.v2, dir), "cpu.weight", weight(shares))
	}
	if m := t.v1["cpu"]; m != "" {
		return write(filepath.Join(m, dir), "cpu.shares", shares)
	}
	return nil
}

func (t *Tree) ensureV1(ctrl, dir string, l Limits) error {
	path := filepath.Join(t.v1[ctrl], dir)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	switch ctrl {
	case "cpu":
		errs := []error{write(path, "cpu.shares", l.Shares)}
		if l.Quota > 0 {
			errs = append(errs, write(path, "cpu.cfs_period_us", l.Period), write(path, "cpu.cfs_quota_us", l.Quota))
		}
		return errors.Join(errs...)
	case "memory":
		if l.Memory > 0 {
			return write(path, "memory.limit_in_bytes", l.Memory)
		}
	}
	return nil
}

func (t *Tree) ensureV2(dir string, l Limits) error {
	// Every group above must hand its controllers on.
	at := t.v2
	for _, part := range strings.Split(strings.Trim(dir, "/"), "/") {
		if err := enable(at); err != nil {
			return err
		}
		at = filepath.Join(at, part)
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	errs := []error{enable(at), write(at, "cpu.weight", weight(l.Shares))}
	if l.Quota > 0 {
		errs = append(errs, writeString(at, "cpu.max", fmt.Sprintf("%d %d", l.Quota, l.Period)))
	}
	if l.Memory > 0 {
		errs = append(errs, write(at, "memory.max", l.Memory))
	}
	return errors.Join(errs...)
}

// enable hands all controllers of a group on to the groups below.
func enable(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	on, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	is := map[string]bool{}
	for _, c := range strings.Fields(string(on)) {
		is[c] = true
	}
	for _, c := range strings.Fields(string(have)) {
		if !is[c] {
			if err := writeString(dir, "cgroup.subtree_control", "+"+c); err != nil {
				return err
			}
		}
	}
	return nil
}

func write(dir, file string, v int64) error { return writeString(dir, file, strconv.FormatInt(v, 10)) }

func writeString(dir, file, v string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(v), 0o644)
}

func (t *Tree) mounts() []string {
	if t.v2 != "" {
		return []string{t.v2}
	}
	var out []string
	seen := map[string]bool{}
	for _, m := range t.v1 {
		if !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	}
	return out
}

// Exists tells whether a pod has a group in any hierarchy.
func (t *Tree) Exists(uid types.UID) bool {
	for _, m := range t.mounts() {
		for _, c := range classes {
			if _, err := os.Stat(filepath.Join(m, t.path(c, "pod"+string(uid)))); err == nil {
				return true
			}
		}
	}
	return false
}

var classes = []v1.PodQOSClass{v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort}

// Remove removes a pod's groups from every hierarchy. It fails while a process
// is left in one of them.
func (t *Tree) Remove(uid types.UID) error {
	var errs []error
	for _, m := range t.mounts() {
		for _, c := range classes {
			errs = append(errs, remove(filepath.Join(m, t.path(c, "pod"+string(uid)))))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.requests[uid]; ok {
		delete(t.requests, uid)
		errs = append(errs, t.burstableLocked())
	}
	return errors.Join(errs...)
}

// Pods lists the pods that have a group.
func (t *Tree) Pods() []types.UID {
	seen := map[types.UID]bool{}
	var out []types.UID
	for _, m := range t.mounts() {
		for _, c := range classes {
			entries, err := os.ReadDir(filepath.Join(m, t.path(c, "")))
			if err != nil {
				continue
			}
			for _, e := range entries {
				if uid, ok := strings.CutPrefix(e.Name(), "pod"); ok && e.IsDir() && !seen[types.UID(uid)] {
					seen[types.UID(uid)] = true
					out = append(out, types.UID(uid))
				}
			}
		}
	}
	return out
}

// remove removes a group and those below it, deepest first: files in a group
// are not to be removed, only its directories.
func remove(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
