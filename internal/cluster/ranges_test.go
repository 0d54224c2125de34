package cluster

import (
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
		{"fd00::/64", "10.43.0.0/16", "--cluster-cidr"},
		{"10.42.0.0/16", "10.43.0.0/31", "--service-cidr 10.43.0.0/31: must be"},
		{"10.42.0.0/16", "11.0.0.0/8", "--service-cidr"},
		{"10.42.0.0/16", "127.0.0.0/16", "--service-cidr"},
		{"10.42.0.0/16", "224.0.0.0/16", "--service-cidr"},
		{"10.42.0.0/16", "fd00::/108", "--service-cidr"},
	} {
		o := Options{DataDir: "x"}
		for text, at := range map[string]*netip.Prefix{tc.pods: &o.ClusterCIDR, tc.services: &o.ServiceCIDR} {
			if text != "" {
				*at = netip.MustParsePrefix(text)
			}
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
		o := Options{DataDir: "x", ClusterCIDR: netip.MustParsePrefix("10.42.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.43.0.0/16"), LoadBalancerPool: pool}
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
