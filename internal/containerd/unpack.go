package containerd

import (
	"os"
	"path/filepath"

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
	dns     = "setpoint-dns"
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
	if err := b.Unpack(to, func(name string) bool { return name != kubectl && name != dns }); err != nil {
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
func UnpackKubectl(cacheDir string) (string, error) { return unpackAlone(kubectl, cacheDir) }

// UnpackDNS unpacks the DNS server alone, to DIR/bin/setpoint-dns-<hash>,
// unless it is there, and returns its path. Older ones go: one that runs needs
// its file no more.
func UnpackDNS(dir string) (string, error) {
	path, err := unpackAlone(dns, filepath.Join(dir, "bin"))
	if err != nil {
		return "", err
	}
	all, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(path)), dns+"-*"))
	if err != nil {
		return "", err
	}
	for _, other := range all {
		if other != filepath.Dir(path) {
			if err := os.RemoveAll(other); err != nil {
				return "", err
			}
		}
	}
	return path, nil
}

// unpackAlone unpacks one program. Its folder is named by its own content:
// another runtime does not make it another program.
func unpackAlone(program, dir string) (string, error) {
	b, err := bundle.Open()
	if err != nil {
		return "", err
	}
	entry, ok := b.Find(program)
	if !ok {
		return "", ErrAbsent
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	to := filepath.Join(absolute, program+"-"+entry.SHA256[:hashLength])
	if err := b.Unpack(to, func(name string) bool { return name == program }); err != nil {
		return "", err
	}
	return filepath.Join(to, program), nil
}
