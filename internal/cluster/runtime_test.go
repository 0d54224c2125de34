package cluster

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/network"
)

// TestRuntimeSocket: a runtime that is about to start is waited for, one that
// nobody starts is not.
func TestRuntimeSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("sockets of the runtime lie in /run, where only root writes")
	}
	dir := t.TempDir()
	s, err := openState(&Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	socket := func(tell func(string)) (string, error) { return RuntimeSocket(t.Context(), dir, tell) }
	if _, err := socket(nil); err == nil || !strings.Contains(err.Error(), "no node of the cluster") {
		t.Errorf("before it is a node: %v", err)
	}
	s.PodCIDRs = Prefixes{netip.MustParsePrefix("10.42.0.0/24")}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if _, err := socket(nil); err == nil || !strings.Contains(err.Error(), "`setpoint up` starts it") {
		t.Errorf("while no process has the folder: %v", err)
	}
	lock, err := lockData(t.Context(), &Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.release()
	run := "/run/setpoint-" + s.Instance
	defer os.RemoveAll(run)
	lines := 0
	path, err := socket(func(line string) {
		lines++
		if err := os.MkdirAll(run, 0o700); err != nil {
			t.Error(err)
		}
		l, err := net.Listen("unix", filepath.Join(run, "containerd.sock"))
		if err != nil {
			t.Error(err)
			return
		}
		context.AfterFunc(t.Context(), func() { l.Close() })
	})
	if err != nil || lines != 1 || path != filepath.Join(run, "containerd.sock") {
		t.Errorf("got %q and error %v, %d lines were told", path, err, lines)
	}
}

// TestRangesFree: a pod range that another link has an address in is refused.
func TestRangesFree(t *testing.T) {
	c := hostConfig("127.0.0.0/24")
	if err := rangesFree(c); err == nil || !strings.Contains(err.Error(), "link lo has the address 127.0.0.1/8") {
		t.Errorf("the range of loopback: %v", err)
	}
	c = hostConfig("233.252.0.0/24")
	if err := rangesFree(c); err != nil {
		t.Error(err)
	}
}

func hostConfig(podCIDR string) network.Config {
	return network.Config{Instance: "a", PodCIDRs: []netip.Prefix{netip.MustParsePrefix(podCIDR)}}
}
