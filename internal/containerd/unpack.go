package containerd

import (
	"path/filepath"
	"strings"

	"github.com/setpoint-project/setpoint/internal/containerd/bundle"
)

// ErrAbsent says that this binary was built without the container runtime, and
// what to do about it.
var ErrAbsent = bundle.ErrAbsent

// Paths tells where an unpacked runtime lies.
type Paths struct {
	Hash       string // names the runtime: two with the same hash are the same
	Dir        string // holds all of the below
	Containerd string
	Shim       string
	Runc       string
	CNI        string // folder with the plugins bridge, host-local, loopback and portmap
	Images     string // OCI image layout (tar) with the images pause and demo
}

const (
	kubectl = "kubectl"
	// hashLength is how much of a hash folders are named by.
	hashLength = 16
)

// Unpack unpacks the container runtime to DIR/bin/<hash>, unless it is there,
// and tells where everything lies. It may be called by several processes at
// once. Older runtimes beside it are left alone: containers that they started
// still need them.
func Unpack(dir string) (Paths, error) {
	b, err := bundle.Open()
	if err != nil {
		return Paths{}, err
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return Paths{}, err
	}
	to := filepath.Join(absolute, "bin", b.Hash[:hashLength])
	if err := b.Unpack(to, func(name string) bool { return name != kubectl }); err != nil {
		return Paths{}, err
	}
	return Paths{
		Hash:       b.Hash,
		Dir:        to,
		Containerd: filepath.Join(to, "bin", "containerd"),
		Shim:       filepath.Join(to, "bin", "containerd-shim-runc-v2"),
		Runc:       filepath.Join(to, "bin", "runc"),
		CNI:        filepath.Join(to, "cni"),
		Images:     filepath.Join(to, "images.tar"),
	}, nil
}

// UnpackKubectl unpacks kubectl alone, below cacheDir, unless it is there, and
// returns its path. It needs no privilege beyond writing to cacheDir.
func UnpackKubectl(cacheDir string) (string, error) {
	b, err := bundle.Open()
	if err != nil {
		return "", err
	}
	entry, ok := b.Find(kubectl)
	if !ok {
		return "", ErrAbsent
	}
	absolute, err := filepath.Abs(cacheDir)
	if err != nil {
		return "", err
	}
	// Named by its own content: another runtime does not make it another kubectl.
	to := filepath.Join(absolute, strings.Join([]string{kubectl, entry.SHA256[:hashLength]}, "-"))
	if err := b.Unpack(to, func(name string) bool { return name == kubectl }); err != nil {
		return "", err
	}
	return filepath.Join(to, kubectl), nil
}
