package pod

import (
	"net/netip"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// orderIPs puts the addresses of a sandbox in the cluster's order, whatever
// order the runtime tells them in: the first of the node's own family, then the
// first of the other. A pod has one of each family at most. See
// https://kubernetes.io/docs/concepts/services-networking/dual-stack/.
func (d *Deps) orderIPs(state *cri.State) {
	if len(d.HostIPs) == 0 {
		return
	}
	primary := family(d.HostIPs[0])
	for i := range state.Sandboxes {
		had := state.Sandboxes[i].IPs
		if len(had) < 2 {
			continue
		}
		var first, second string
		for _, ip := range had {
			switch f := family(ip); {
			case f == primary && first == "":
				first = ip
			case f != primary && second == "":
				second = ip
			}
		}
		ips := make([]string, 0, 2)
		for _, ip := range []string{first, second} {
			if ip != "" {
				ips = append(ips, ip)
			}
		}
		state.Sandboxes[i].IPs = ips
	}
}

// family is the number of an address's bits.
func family(ip string) int {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return 0
	}
	return addr.Unmap().BitLen()
}
