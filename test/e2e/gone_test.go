package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

// gone wants nothing of a cluster to be left on the machine but its data.
func gone(t *testing.T, dir string) {
	t.Helper()
	for _, what := range left(dir) {
		t.Error(what)
	}
}

// left lists what is left of the cluster of a data folder, as seen from the
// network namespace of the calling thread.
func left(dir string) (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf("left: "+format, args...)) }
	failed := func(err error) []string { return append(found, err.Error()) }
	b, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err != nil {
		return failed(err)
	}
	var state struct{ Instance string }
	if err := json.Unmarshal(b, &state); err != nil || state.Instance == "" {
		return failed(fmt.Errorf("no instance in %s: %v", b, err))
	}
	nft, err := nftables.New()
	if err != nil {
		return failed(err)
	}
	tables, err := nft.ListTables()
	if err != nil {
		return failed(err)
	}
	for _, table := range tables {
		if strings.Contains(table.Name, state.Instance) {
			add("nftables table %s", table.Name)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		return failed(err)
	}
	for _, l := range links {
		if strings.Contains(l.Name, state.Instance) {
			add("link %s", l.Name)
		}
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return failed(err)
	}
	for _, ours := range rangesOf(b) {
		for _, r := range routes {
			if r.Dst != nil && ours.Contains(r.Dst.IP) {
				add("route %s", r)
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return failed(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir+"/") || strings.Contains(line, "setpoint-"+state.Instance) {
			add("mount %s", line)
		}
	}
	for _, p := range processesOf("/setpoint-" + state.Instance) {
		add("process %s", p)
	}
	for _, p := range processesWith(state.Instance, dir) {
		add("process %s", p)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/setpoint-%s*", "/sys/fs/cgroup/*/setpoint-%s*", "/run/setpoint-%s*", "/run/netns/*%s*"} {
		paths, _ := filepath.Glob(fmt.Sprintf(pattern, state.Instance))
		for _, path := range paths {
			add("%s", path)
		}
	}
	return found
}

// rangesOf lists the address ranges of a cluster.
func rangesOf(state []byte) (ranges []*net.IPNet) {
	var s map[string]any
	if err := json.Unmarshal(state, &s); err != nil {
		return nil
	}
	for _, v := range s {
		text, _ := v.(string)
		for one := range strings.SplitSeq(text, ",") {
			if _, n, err := net.ParseCIDR(one); err == nil {
				ranges = append(ranges, n)
			}
		}
	}
	return ranges
}

// processesWith lists the processes that have one of texts in their arguments.
func processesWith(texts ...string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var out []string
	for _, f := range files {
		args, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, text := range texts {
			if strings.Contains(string(args), text) {
				out = append(out, filepath.Base(filepath.Dir(f))+" "+strings.ReplaceAll(string(args), "\x00", " "))
			}
		}
	}
	return out
}
