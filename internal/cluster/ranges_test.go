package cluster

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestValidateRanges(t *testing.T) {
	for _, tc := range []struct{ pods, services, wrong string }{
		{"", "", ""},
		{"10.42.0.0/16", "10.43.0.0/16", ""},
		{"10.42.7.0/24", "10.42.8.0/30", ""},
		{"10.42.0.0/16", "10.32.0.0/13", ""},
		{"10.42.0.0/16", "", "give both or none"},
		{"", "10.43.0.0/16", "give both or none"},
		{"10.0.0.0/8", "10.43.0.0/16", "overlap"},
		{"10.42.1.0/24", "10.42.0.0/16", "overlap"},
		{"10.42.0.0/25", "10.43.0.0/16", "--cluster-cidr 10.42.0.0/25: must be"},
		{"10.42.0.0/32", "10.43.0.0/16", "--cluster-cidr 10.42.0.0/32: must be"},
		{"127.0.0.0/16", "10.43.0.0/16", "--cluster-cidr 127.0.0.0/16: must be"},
		{"169.254.8.0/24", "10.43.0.0/16", "--cluster-cidr"},
		{"0.0.0.0/0", "10.43.0.0/16", "--cluster-cidr"},
		{"fd00::/64", "10.43.0.0/16", "in the same order"},
		{"fd00:42::/56", "fd00:43::/112", ""},
		{"10.42.0.0/16,fd00:42::/48", "10.43.0.0/16,fd00:43::/108", ""},
		{"fd00:42::/64,10.42.0.0/16", "fd00:43::/126,10.43.0.0/16", ""},
		{"10.42.0.0/16,fd00:42::/56", "10.43.0.0/16", "of the same families"},
		{"10.42.0.0/16", "10.43.0.0/16,fd00:43::/112", "of the same families"},
		{"10.42.0.0/16,fd00:42::/56", "fd00:43::/112,10.43.0.0/16", "in the same order"},
		{"10.42.0.0/16,10.44.0.0/16", "10.43.0.0/16,fd00:43::/112", "--cluster-cidr 10.42.0.0/16,10.44.0.0/16: must be one, or one of each family"},
		{"10.42.0.0/16,fd00:42::/56,fd00:44::/56", "10.43.0.0/16,fd00:43::/112", "--cluster-cidr 10.42.0.0/16,fd00:42::/56,fd00:44::/56: must be one"},
		{"10.42.0.0/16,fd00:42::/56", "fd00:44::/112,fd00:43::/112", "--service-cidr fd00:44::/112,fd00:43::/112: must be one"},
		{"fd00:42::/65", "fd00:43::/112", "--cluster-cidr fd00:42::/65: must be an IPv6 range between /48 and /64"},
		{"fd00:42::/47", "fd00:43::/112", "--cluster-cidr"},
		{"fd00:42::/56", "fd00:43::/107", "--service-cidr fd00:43::/107: must be an IPv6 range between /108 and /126"},
		{"fd00:42::/56", "fd00:43::/127", "--service-cidr"},
		{"fd00:42::/56", "fd00:42::/112", "overlap"},
		{"fe80::/64", "fd00:43::/112", "--cluster-cidr"},
		{"fd00:42::/56", "ff02::/112", "--service-cidr"},
		{"fd00:42::/56", "::ffff:0:0/112", "--service-cidr"},
		{"10.42.0.0/16", "10.43.0.0/31", "--service-cidr 10.43.0.0/31: must be"},
		{"10.42.0.0/16", "11.0.0.0/8", "--service-cidr"},
		{"10.42.0.0/16", "127.0.0.0/16", "--service-cidr"},
		{"10.42.0.0/16", "224.0.0.0/16", "--service-cidr"},
		{"10.42.0.0/16", "fd00::/108", "--service-cidr"},
	} {
		o := Options{DataDir: "x"}
		if err := errors.Join(o.ClusterCIDRs.Set(tc.pods), o.ServiceCIDRs.Set(tc.services)); err != nil {
			t.Fatal(err)
		}
		if err := o.Validate(); (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("pods %s, services %s: %v, want %q", tc.pods, tc.services, err, tc.wrong)
		}
	}
}

// TestValidatePool: a balancer gets no address that is a pod's, a service's or
// nobody's.
func TestValidatePool(t *testing.T) {
	for pool, wrong := range map[string]string{
		"": "", "nodes": "", "none": "", "192.0.2.0/28": "", "10.41.255.0-10.41.255.255": "", "10.44.0.0/16": "",
		"10.42.3.0/28":              "overlaps 10.42.0.0/16, which pods have",
		"10.43.0.7":                 "overlaps 10.43.0.0/16, which services have",
		"192.0.2.1,10.43.255.255":   "overlaps 10.43.0.0/16",
		"10.41.0.0-10.42.0.0":       "overlaps 10.42.0.0/16",
		"10.43.255.255-10.44.0.255": "overlaps 10.43.0.0/16",
		"10.32.0.0/12":              "overlaps 10.42.0.0/16",
		"127.0.0.5":                 "overlaps 127.0.0.0/8, of which nobody",
		"224.0.0.0/24":              "overlaps 224.0.0.0/3",
		"everywhere":                `"everywhere": must be nodes, none`,
	} {
		o := Options{DataDir: "x", ClusterCIDRs: Prefixes{netip.MustParsePrefix("10.42.0.0/16")}, ServiceCIDRs: Prefixes{netip.MustParsePrefix("10.43.0.0/16")}, LoadBalancerPool: pool}
		err := o.Validate()
		if (err == nil) != (wrong == "") || err != nil && (!strings.Contains(err.Error(), wrong) || !strings.HasPrefix(err.Error(), "--load-balancer-pool")) {
			t.Errorf("%s: %v, want %q", pool, err, wrong)
		}
	}
}

// TestValidateNodeName: a name that the API would refuse later starts nothing.
func TestValidateNodeName(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "node-1": true, "node-1.example.com": true, "Bad Name!": false, "Upper": false, "-x": false,
		strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
	} {
		o := Options{DataDir: "x", NodeName: name}
		if err := o.Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestValidateNodeIPs: one address a family, which others can reach.
func TestValidateNodeIPs(t *testing.T) {
	for ips, ok := range map[string]bool{
		"": true, "192.0.2.1": true, "fd00::1": true, "192.0.2.1,fd00::1": true, "fd00::1,192.0.2.1": true,
		"192.0.2.1,192.0.2.2": false, "fd00::1,fd00::2": false, "192.0.2.1,fd00::1,fd00::2": false,
		"0.0.0.0": false, "::": false, "fe80::1%eth0": false, "ff02::1": false, "::ffff:192.0.2.1": false,
	} {
		o := Options{DataDir: "x"}
		if err := o.NodeIPs.Set(ips); err != nil {
			t.Fatal(err)
		}
		if err := o.Validate(); (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "--node-ip "+ips) {
			t.Errorf("%q: %v", ips, err)
		}
	}
}

// TestFirstPart: the first node's part is a node's share, or all of a range that
// is no larger.
func TestFirstPart(t *testing.T) {
	for pods, want := range map[string]string{
		"10.42.0.0/16": "10.42.0.0/24", "10.42.7.0/24": "10.42.7.0/24", "fd00:42::/56": "fd00:42::/64", "fd00:42:0:7::/64": "fd00:42:0:7::/64",
	} {
		if got := firstPart(netip.MustParsePrefix(pods)); got.String() != want {
			t.Errorf("%s: %s, want %s", pods, got, want)
		}
	}
}
