package cluster

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-project/setpoint/internal/controllers/loadbalancer"
)

// A service range has room for the first services and fits into memory; a pod
// range gives each node a /24.
const (
	largestServices, smallestServices = 12, 30
	smallestPods                      = 24
)

// validateRanges says what is wrong with the ranges of pods and services.
func validateRanges(pods, services netip.Prefix) error {
	if pods.IsValid() != services.IsValid() {
		return fmt.Errorf("--cluster-cidr and --service-cidr: give both or none")
	}
	if !pods.IsValid() {
		return nil
	}
	if !usable(pods) || pods.Bits() > smallestPods {
		return fmt.Errorf("--cluster-cidr %s: must be an IPv4 range of at least a /%d that pods can have", pods, smallestPods)
	}
	if !usable(services) || services.Bits() < largestServices || services.Bits() > smallestServices {
		return fmt.Errorf("--service-cidr %s: must be an IPv4 range between /%d and /%d that services can have", services, largestServices, smallestServices)
	}
	if pods.Overlaps(services) {
		return fmt.Errorf("--cluster-cidr %s and --service-cidr %s overlap", pods, services)
	}
	return nil
}

// validatePool says what is wrong with the addresses of load balancers, beside
// the ranges of pods and services, as far as these are known.
func validatePool(text string, pods, services netip.Prefix) error {
	pool, err := loadbalancer.ParsePool(text)
	if err != nil {
		return fmt.Errorf("--load-balancer-pool: %w", err)
	}
	for _, taken := range []struct {
		whose string
		r     netip.Prefix
	}{{"pods have", pods}, {"services have", services}} {
		if taken.r.IsValid() && pool.Overlaps(taken.r) {
			return fmt.Errorf("--load-balancer-pool %s: overlaps %s, which %s", text, taken.r, taken.whose)
		}
	}
	for _, r := range special {
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

func usable(p netip.Prefix) bool {
	return p.Addr().Is4() && !slices.ContainsFunc(special, p.Overlaps)
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
