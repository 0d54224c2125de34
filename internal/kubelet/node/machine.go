package node

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"golang.org/x/sys/unix"
)

// Machine is what the kernel says of this machine.
type Machine struct {
	OS, Arch   string
	Kernel     string
	OSImage    string
	MachineID  string
	SystemUUID string
	BootID     string
	CPUs       int
	Memory     int64 // bytes
	Storage    int64 // bytes of the file system of the kubelet's folder
}

// inspect asks the kernel.
func inspect(root string) Machine {
	m := Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Kernel:     read("/proc/sys/kernel/osrelease"),
		MachineID:  read("/etc/machine-id"),
		SystemUUID: read("/sys/class/dmi/id/product_uuid"),
		BootID:     read("/proc/sys/kernel/random/boot_id"),
		OSImage:    osImage(),
		Memory:     meminfo("MemTotal"),
		Storage:    int64(Disk(root).Total),
	}
	if m.SystemUUID == "" {
		m.SystemUUID = m.MachineID
	}
	return m
}

// Resources are what the machine has for pods.
func (m Machine) Resources(pods int) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:              *resource.NewQuantity(int64(m.CPUs), resource.DecimalSI),
		v1.ResourceMemory:           *resource.NewQuantity(m.Memory, resource.BinarySI),
		v1.ResourceEphemeralStorage: *resource.NewQuantity(m.Storage, resource.BinarySI),
		v1.ResourcePods:             *resource.NewQuantity(int64(pods), resource.DecimalSI),
	}
}

// space of a file system in bytes.
type space struct{ Total, Free uint64 }

// Disk is the space of the file system that path lies on.
func Disk(path string) space {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return space{}
	}
	return space{Total: st.Blocks * uint64(st.Bsize), Free: st.Bavail * uint64(st.Bsize)}
}

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func osImage() string {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return ""
}

// meminfo is a line of /proc/meminfo in bytes.
func meminfo(name string) int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), name+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}

// available memory in bytes.
func available() int64 { return meminfo("MemAvailable") }
