package containerd

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Options describes one instance of the carried runtime.
type Options struct {
	// DataDir is the folder of the cluster's data. Required.
	DataDir string
	// Instance tells clusters on one machine apart. Required: lower-case
	// letters, digits and dashes, at most 32.
	Instance string
	// CNIConfDir is the folder the CNI configuration is read from, whenever it
	// appears there. Default DataDir/cni/net.d.
	CNIConfDir string
	// CNIBinDirs are folders with CNI plugins beside the carried ones.
	CNIBinDirs []string
	// CgroupParent is the cgroup under which the kubelet puts the pods of this
	// instance, as a path such as /setpoint-a. Down removes it from every
	// hierarchy, and kills what is still in it. Empty: no cgroup is touched.
	CgroupParent string
	// StopDaemon has Run stop the daemon when its context ends. Containers run
	// on in either case; by default so does the daemon, and the next Run takes
	// it over without a moment in which nobody watches them.
	StopDaemon bool
	// Grace is how long Down lets containers end by themselves. Default 10 s.
	Grace time.Duration
	// Debug makes the daemon's log tell every step.
	Debug bool
	// Logger gets one line for each thing that happened. Default: none.
	Logger *slog.Logger
}

// maxInstance keeps socket paths within their bound.
const maxInstance = 32

func validInstance(name string) bool {
	return name != "" && len(name) <= maxInstance &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" &&
		name[0] != '-' && name[len(name)-1] != '-'
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.DataDir == "" {
		errs = append(errs, errors.New("containerd: DataDir is empty"))
	}
	if !validInstance(o.Instance) {
		errs = append(errs, fmt.Errorf("containerd: Instance %q: want 1 to %d lower-case letters, digits or dashes, not at the ends", o.Instance, maxInstance))
	}
	if p := o.CgroupParent; p != "" && (!filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/") {
		errs = append(errs, fmt.Errorf("containerd: CgroupParent %q: want a clean absolute path below the root", p))
	}
	if o.Grace < 0 {
		errs = append(errs, fmt.Errorf("containerd: Grace %v is negative", o.Grace))
	}
	return errors.Join(errs...)
}

// layout tells where the files of an instance lie.
type layout struct {
	data   string // absolute DataDir
	run    string
	cgroup string // of the daemon and its shims
}

func (o *Options) layout() (layout, error) {
	data, err := filepath.Abs(o.DataDir)
	if err != nil {
		return layout{}, err
	}
	return layout{data: data, run: runDir(o.Instance), cgroup: runtimeCgroup(o.Instance)}, nil
}

// runDir is the folder of an instance's sockets and state.
func runDir(instance string) string { return "/run/setpoint-" + instance }

// RunDir is the folder of an instance's sockets. Down removes it.
func RunDir(instance string) string { return runDir(instance) }

// Apart moves a process into the cgroups of an instance's runtime, where it
// lives on when ours ends, until Down. Without cgroups it works as well.
func Apart(instance string, pid int) { _ = joinCgroups(runtimeCgroup(instance), pid) }

func runtimeCgroup(instance string) string { return "/setpoint-" + instance + "-runtime" }

// Socket is the path of an instance's socket. It serves CRI, for the kubelet,
// and containerd's own API, for ImportImage and the like.
func Socket(instance string) string { return runDir(instance) + "/containerd.sock" }

func (l layout) home() string       { return filepath.Join(l.data, "containerd") }
func (l layout) root() string       { return filepath.Join(l.home(), "root") }
func (l layout) log() string        { return filepath.Join(l.home(), "containerd.log") }
func (l layout) lock() string       { return filepath.Join(l.home(), "lock") }
func (l layout) registries() string { return filepath.Join(l.home(), "registries") }
func (l layout) socket() string     { return filepath.Join(l.run, "containerd.sock") }
func (l layout) config(hash string) string {
	return filepath.Join(l.home(), "config-"+hash+".toml")
}

func (l layout) create(cniConf string) error {
	for _, dir := range []string{l.home(), l.root(), l.registries(), cniConf, l.run} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return err
		}
	}
	return nil
}
