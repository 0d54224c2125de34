package harness

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

// Instance tells the cluster apart on the machine.
func (c *Cluster) Instance() string {
	c.T.Helper()
	data, err := os.ReadFile(filepath.Join(c.Dir, "cluster.json"))
	must(c.T, err)
	var state struct{ Instance string }
	must(c.T, json.Unmarshal(data, &state))
	return state.Instance
}

// Reboot leaves of the cluster what a restart of the machine leaves: the data
// folder, as it was at that moment. Processes, mounts, links, rules, cgroups and
// all in /run are gone.
func (c *Cluster) Reboot() {
	c.T.Helper()
	name := "setpoint-" + c.Instance()
	c.Kill()
	c.Eventually(time.Minute, "every process has ended", func() error {
		left := c.killAll("/" + name)
		if left > 0 {
			return errors.New(strconv.Itoa(left) + " are left")
		}
		return nil
	})
	c.unmountAll(name)
	must(c.T, os.RemoveAll("/run/"+name))
	for _, pattern := range []string{"/sys/fs/cgroup/" + name + "*", "/sys/fs/cgroup/*/" + name + "*"} {
		roots, _ := filepath.Glob(pattern)
		for _, root := range roots {
			var dirs []string
			filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			for i := len(dirs) - 1; i >= 0; i-- {
				syscall.Rmdir(dirs[i])
			}
		}
	}
	link, err := netlink.LinkByName("sp-" + c.Instance())
	must(c.T, err)
	must(c.T, netlink.LinkDel(link))
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Type: syscall.RTN_UNREACHABLE}, netlink.RT_FILTER_TYPE)
	must(c.T, err)
	for _, r := range routes {
		must(c.T, netlink.RouteDel(&r))
	}
	nft, err := nftables.New()
	must(c.T, err)
	nft.DelTable(&nftables.Table{Name: name, Family: nftables.TableFamilyIPv4})
	must(c.T, nft.Flush())
}

// killAll kills the processes in cgroups whose path holds text, and counts
// those that were there.
func (c *Cluster) killAll(text string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(data), text) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(f), "status"))
		if err != nil || strings.Contains(string(status), "State:\tZ") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
			n++
		}
	}
	return n
}

// unmountAll takes away every mount of the cluster, the newest first.
func (c *Cluster) unmountAll(name string) {
	c.T.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	must(c.T, err)
	lines := strings.Split(string(table), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		fields := strings.Fields(lines[i])
		if len(fields) > 4 && (strings.HasPrefix(fields[4], c.Dir+"/") || strings.HasPrefix(fields[4], "/run/"+name+"/")) {
			if err := syscall.Unmount(fields[4], syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
				c.T.Fatalf("unmount %s: %v", fields[4], err)
			}
		}
	}
}
