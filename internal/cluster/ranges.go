package cluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-project/setpoint/internal/controllers/loadbalancer"
)

// size bounds the length of the prefix of a range of one family. A service
// range has room for the first services and fits into memory; a pod range gives
// each node a /24 or a /64, of IPv6 to 65,536 of them, as upstream does. See
// https://kubernetes.io/docs/concepts/services-networking/dual-stack/.
type size struct {
	family                            string
	largestServices, smallestServices int
	largestPods, smallestPods         int
	special                           []netip.Prefix
}

var (
	sizeIPv4 = size{"IPv4", 12, 30, 8, nodeBitsIPv4, special}
	sizeIPv6 = size{"IPv6", 108, 126, 48, nodeBitsIPv6, specialIPv6}
)

// What one node gets of the pod range.
const (
	nodeBitsIPv4 = 24
	nodeBitsIPv6 = 64
)

func sizeOf(p netip.Prefix) size {
	if p.Addr().Is6() {
		return sizeIPv6
	}
	return sizeIPv4
}

// validateRanges says what is wrong with the ranges of pods and services.
func validateRanges(pods, services Prefixes) error {
	if (len(pods) == 0) != (len(services) == 0) {
		return fmt.Errorf("--cluster-cidr and --service-cidr: give both or none")
	}
	is6 := func(p netip.Prefix) bool { return p.Addr().Is6() }
	if err := cmp.Or(onePerFamily("--cluster-cidr", pods, is6), onePerFamily("--service-cidr", services, is6)); err != nil {
		return err
	}
	if len(pods) != len(services) {
		return fmt.Errorf("--cluster-cidr %s and --service-cidr %s: give ranges of the same families to both", pods, services)
	}
	for i, p := range pods {
		s := services[i]
		size := sizeOf(p)
		switch {
		case p.Addr().Is6() != s.Addr().Is6():
			return fmt.Errorf("--cluster-cidr %s and --service-cidr %s: give the families in the same order; the first is the one that services have unless they say otherwise", pods, services)
		case !usable(p) || p.Bits() < size.largestPods || p.Bits() > size.smallestPods:
			return fmt.Errorf("--cluster-cidr %s: must be an %s range between /%d and /%d that pods can have", p, size.family, size.largestPods, size.smallestPods)
		case !usable(s) || s.Bits() < size.largestServices || s.Bits() > size.smallestServices:
			return fmt.Errorf("--service-cidr %s: must be an %s range between /%d and /%d that services can have", s, size.family, size.largestServices, size.smallestServices)
		case p.Overlaps(s):
			return fmt.Errorf("--cluster-cidr %s and --service-cidr %s overlap", p, s)
		}
	}
	return nil
}

// firstPart is the part of a pod range that the first node gets.
func firstPart(pods netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(pods.Masked().Addr(), max(sizeOf(pods).smallestPods, pods.Bits()))
}

// validateNodeIPs says what is wrong with the addresses of a node, beside the
// ranges that the flags name.
func validateNodeIPs(ips Addresses) error {
	for _, ip := range ips {
		if !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip.Is4In6() || ip.Zone() != "" || ip.IsLinkLocalUnicast() {
			return fmt.Errorf("--node-ip %s: must be an address by which others reach this machine", ip)
		}
	}
	return onePerFamily("--node-ip", ips, netip.Addr.Is6)
}

// validatePool says what is wrong with the addresses of load balancers, beside
// the ranges of pods and services, as far as these are known.
func validatePool(text string, pods, services Prefixes) error {
	pool, err := loadbalancer.ParsePool(text)
	if err != nil {
		return fmt.Errorf("--load-balancer-pool: %w", err)
	}
	for _, taken := range []struct {
		whose  string
		ranges Prefixes
	}{{"pods have", pods}, {"services have", services}} {
		for _, r := range taken.ranges {
			if pool.Overlaps(r) {
				return fmt.Errorf("--load-balancer-pool %s: overlaps %s, which %s", text, r, taken.whose)
			}
		}
	}
	for _, r := range slices.Concat(special, specialIPv6) {
		if pool.Overlaps(r) {
			return fmt.Errorf("--load-balancer-pool %s: overlaps %s, of which nobody can have an address", text, r)
		}
	}
	return nil
}

// special are ranges that mean something else to every machine: this network,
// loopback, link-local, multicast and what is reserved.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
}

// specialIPv6 are those of IPv6: no address, loopback, what stands for IPv4,
// link-local and multicast.
var specialIPv6 = []netip.Prefix{
	netip.MustParsePrefix("::/8"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

func usable(p netip.Prefix) bool {
	return p.IsValid() && !slices.ContainsFunc(sizeOf(p).special, p.Overlaps)
}

// validateNodeName says what is wrong with a node's name: it is a label, too.
func validateNodeName(name string) error {
	wrong := validation.IsDNS1123Subdomain(name)
	if len(wrong) == 0 {
		wrong = validation.IsValidLabelValue(name)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("--node-name %q: %s", name, strings.Join(wrong, "; "))
	}
	return nil
}
