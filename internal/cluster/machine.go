package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/setpoint-project/setpoint/internal/network"
)

// machineLockPath is locked by whoever looks for what no other cluster of this
// machine has (address ranges), until it has taken it.
const machineLockPath = "/run/setpoint.lock"

// lockMachine lets one start at a time choose address ranges and raise its
// network with them. It is a help, not a must: where it cannot be had in time,
// two first starts at the very same moment may choose the same ranges, and the
// later one is refused by rangesFree.
func lockMachine() (unlock func()) {
	f, err := os.OpenFile(machineLockPath, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return func() {}
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(poll) {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
	}
	return func() { f.Close() }
}

// rangesFree refuses ranges that another cluster of this machine lives in, and a
// pod range that another link has an address in: two clusters whose data folders
// remember the same range, one of them made while the other was down after a
// restart of the machine, or that were told so.
func rangesFree(c network.Config) error {
	if err := c.Free(); err != nil {
		return err
	}
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.Name == c.Bridge() {
			continue
		}
		addrs, err := l.Addrs()
		if err != nil {
			continue // it has just gone
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			ip, ok := netip.AddrFromSlice(n.IP)
			for _, pods := range c.PodCIDRs {
				if ok && pods.Contains(ip.Unmap()) {
					return fmt.Errorf("the pod range %s of this node is in use: link %s has the address %s", pods, l.Name, n)
				}
			}
		}
	}
	return nil
}
