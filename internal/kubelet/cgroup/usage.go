package cgroup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Usage is what the processes of a group use, those of the groups below
// included.
type Usage struct {
	At          time.Time
	CPU         uint64 // nanoseconds of all cores since the group was made
	Memory      uint64 // bytes, the page cache included
	WorkingSet  uint64 // Memory without the file pages that the kernel would drop first
	RSS         uint64 // bytes that no file backs
	Swap        uint64 // bytes
	Faults      uint64 // page faults
	MajorFaults uint64 // those that read from a disk
	Processes   uint64
}

// OfPod reads what a pod uses: fs.ErrNotExist when it has no group.
func (t *Tree) OfPod(pod *v1.Pod) (Usage, error) { return t.read(t.Parent(pod)) }

// OfPods reads what all pods use together.
func (t *Tree) OfPods() (Usage, error) { return t.read(filepath.Join(t.parent, "kubepods")) }

// OfNode reads what the whole machine uses. The root of a version 2 hierarchy
// has no account of its memory: there the kernel's own is asked.
func (t *Tree) OfNode() (Usage, error) {
	u, err := t.read("/")
	if errors.Is(err, fs.ErrNotExist) {
		return t.kernel("/proc")
	}
	return u, err
}

func (t *Tree) read(dir string) (u Usage, err error) {
	if t.v2 != "" {
		u, err = readV2(filepath.Join(t.v2, dir))
	} else {
		u, err = readV1(filepath.Join(t.v1["cpuacct"], dir), filepath.Join(t.v1["memory"], dir))
	}
	if err == nil {
		u.Processes = t.processes(dir)
	}
	return u, err
}

// processes is 0 where nobody counts them.
func (t *Tree) processes(dir string) uint64 {
	at := t.v2
	if at == "" {
		at = t.v1["pids"]
	}
	if at == "" {
		return 0
	}
	n, _ := number(filepath.Join(at, dir, "pids.current"))
	return n
}

func readV1(cpu, memory string) (u Usage, err error) {
	u.At = time.Now()
	if u.CPU, err = number(filepath.Join(cpu, "cpuacct.usage")); err != nil {
		return u, err
	}
	if u.Memory, err = number(filepath.Join(memory, "memory.usage_in_bytes")); err != nil {
		return u, err
	}
	stat, err := pairs(filepath.Join(memory, "memory.stat"))
	if err != nil {
		return u, err
	}
	u.RSS, u.Swap = stat["total_rss"], stat["total_swap"]
	u.Faults, u.MajorFaults = stat["total_pgfault"], stat["total_pgmajfault"]
	u.WorkingSet = less(u.Memory, stat["total_inactive_file"])
	return u, nil
}

func readV2(dir string) (u Usage, err error) {
	u.At = time.Now()
	cpu, err := pairs(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return u, err
	}
	u.CPU = cpu["usage_usec"] * 1000
	if u.Memory, err = number(filepath.Join(dir, "memory.current")); err != nil {
		return u, err
	}
	stat, err := pairs(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return u, err
	}
	u.RSS, u.Faults, u.MajorFaults = stat["anon"], stat["pgfault"], stat["pgmajfault"]
	u.WorkingSet = less(u.Memory, stat["inactive_file"])
	u.Swap, _ = number(filepath.Join(dir, "memory.swap.current")) // there is none without swap
	return u, nil
}

// jiffy is the unit of /proc/stat, the same on every architecture.
const jiffy = uint64(time.Second / 100)

// kernel is the machine's account in /proc.
func (t *Tree) kernel(proc string) (u Usage, err error) {
	u.At = time.Now()
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return u, err
	}
	first, _, _ := strings.Cut(string(stat), "\n")
	for i, f := range strings.Fields(first) {
		// user nice system idle iowait irq softirq steal; what follows is
		// contained in user and nice.
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return u, err
		}
		u.CPU += n * jiffy
	}
	memory, err := pairs(filepath.Join(proc, "meminfo"))
	if err != nil {
		return u, err
	}
	const kib = 1024
	u.Memory = less(memory["MemTotal:"], memory["MemFree:"]) * kib
	u.WorkingSet = less(u.Memory, memory["Inactive(file):"]*kib)
	u.RSS = memory["AnonPages:"] * kib
	u.Swap = less(memory["SwapTotal:"], memory["SwapFree:"]) * kib
	return u, nil
}

// less is a - b, 0 when that is negative: the two are read one after the other.
func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

func number(file string) (uint64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(bytes.TrimSpace(data)), 10, 64)
}

// pairs reads lines of a name and a number.
func pairs(file string) (map[string]uint64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out := map[string]uint64{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
			out[f[0]] = n
		}
	}
	return out, nil
}
