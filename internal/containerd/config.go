package containerd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// daemonConfig is what of the daemon's configuration differs between instances
// and hosts.
type daemonConfig struct {
	paths       Paths
	root        string   // persistent: images, snapshots, metadata
	run         string   // gone after a reboot: sockets, state
	cniConf     string   // folder the CNI configuration is read from
	cniBin      []string // folders the CNI plugins are looked up in
	registries  string   // folder with <host>/hosts.toml
	snapshotter string
	logLevel    string
	// lowerOOMScore says whether this process may make itself and its
	// children less likely to be killed when memory runs out.
	lowerOOMScore bool
}

func (c daemonConfig) socket() string { return c.run + "/containerd.sock" }

// toml renders the configuration, in the newest version of the format.
//
// What is set away from the default, and why:
//   - cni: the loopback interface is brought up in process, which saves
//     executing a plugin for each pod.
//   - statistics are collected every 10 s, not every second: the kubelet reads
//     no faster, and a quiet node should be quiet.
//   - namespaces of pods are mounted below our own state, where taking the
//     instance down finds them, not in the folder all runtimes share.
//   - the shim and runc are named by absolute path, with their own state
//     folders, so that no runtime of the machine is mixed up with ours.
//   - restrict_oom_score_adj, where lowering the score is forbidden: starting
//     a sandbox would fail otherwise, see proc(5) on oom_score_adj.
func (c daemonConfig) toml() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	q := strconv.Quote

	line("version = 4")
	line("root = %s", q(c.root))
	line("state = %s", q(c.run+"/state"))
	line("imports = []")
	if c.lowerOOMScore {
		line("oom_score = -999")
	}
	line("disabled_plugins = [%s, %s]",
		q("io.containerd.metrics.v1.grpc-prometheus"), q("io.containerd.metrics.v1.grpc-otel"))
	line("required_plugins = [%s]", q("io.containerd.grpc.v1.cri"))
	line("")
	line("[debug]")
	line("level = %s", q(c.logLevel))
	line("")
	line("[plugins.%s]", q("io.containerd.server.v1.grpc"))
	line("address = %s", q(c.socket()))
	line("[plugins.%s]", q("io.containerd.server.v1.ttrpc"))
	line("address = %s", q(c.socket()+".ttrpc"))
	line("[plugins.%s]", q("io.containerd.shim.v1.manager"))
	line("socket_dir = %s", q(c.run+"/s"))
	line("")
	line("[plugins.%s]", q("io.containerd.cri.v1.images"))
	line("snapshotter = %s", q(c.snapshotter))
	line("stats_collect_period = 60")
	line("[plugins.%s.pinned_images]", q("io.containerd.cri.v1.images"))
	line("sandbox = %s", q(pauseImage))
	line("demo1 = %s", q(demoImage))
	line("demo2 = %s", q(demoImage2))
	line("[plugins.%s.registry]", q("io.containerd.cri.v1.images"))
	line("config_path = %s", q(c.registries))
	line("[plugins.%s]", q("io.containerd.transfer.v1.local"))
	line("config_path = %s", q(c.registries))
	line("[[plugins.%s.unpack_config]]", q("io.containerd.transfer.v1.local"))
	line("platform = %s", q("linux"))
	line("snapshotter = %s", q(c.snapshotter))
	line("differ = %s", q("walking"))
	line("")
	const runtime = "io.containerd.cri.v1.runtime"
	line("[plugins.%s]", q(runtime))
	line("restrict_oom_score_adj = %v", !c.lowerOOMScore)
	line("netns_mounts_under_state_dir = true")
	line("enable_criu = false")
	line("stats_collect_period = %s", q("10s"))
	line("[plugins.%s.cni]", q(runtime))
	quoted := make([]string, len(c.cniBin))
	for i, dir := range c.cniBin {
		quoted[i] = q(dir)
	}
	line("bin_dirs = [%s]", strings.Join(quoted, ", "))
	line("conf_dir = %s", q(c.cniConf))
	line("use_internal_loopback = true")
	line("[plugins.%s.containerd]", q(runtime))
	line("default_runtime_name = %s", q("runc"))
	line("[plugins.%s.containerd.runtimes.runc]", q(runtime))
	line("runtime_type = %s", q("io.containerd.runc.v2"))
	line("runtime_path = %s", q(c.paths.Shim))
	line("[plugins.%s.containerd.runtimes.runc.options]", q(runtime))
	line("BinaryName = %s", q(c.paths.Runc))
	line("Root = %s", q(c.run+"/runc"))
	line("SystemdCgroup = false")
	return b.String()
}

// hash names the configuration by its content.
func (c daemonConfig) hash() string {
	sum := sha256.Sum256([]byte(c.toml()))
	return hex.EncodeToString(sum[:8])
}
