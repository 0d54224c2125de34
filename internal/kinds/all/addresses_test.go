package all

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAddressWarnings: who spells an address otherwise than others is told so,
// wherever it stands; what is no address is validation's.
func TestAddressWarnings(t *testing.T) {
	for _, tc := range []struct {
		kind, obj, path string // obj with %s for the address
	}{
		{"Service", `{spec: {clusterIP: "%[1]s", clusterIPs: ["%[1]s"]}}`, "spec.clusterIPs[0]"},
		{"Service", `{spec: {externalIPs: ["1.2.3.4", "%s"]}}`, "spec.externalIPs[1]"},
		{"Service", `{spec: {loadBalancerIP: "%s"}}`, "spec.loadBalancerIP"},
		{"EndpointSlice", `{addressType: IPv6, endpoints: [{addresses: ["fd00::1", "%s"]}]}`, "endpoints[0].addresses[1]"},
		{"Pod", `{spec: {hostAliases: [{ip: "%s"}]}}`, "spec.hostAliases[0].ip"},
		{"Pod", `{spec: {dnsConfig: {nameservers: ["%s"]}}}`, "spec.dnsConfig.nameservers[0]"},
		{"Deployment", `{spec: {template: {spec: {dnsConfig: {nameservers: ["%s"]}}}}}`, "spec.template.spec.dnsConfig.nameservers[0]"},
	} {
		for ip, want := range map[string]string{
			"fd00::a":         "",
			"10.0.0.1":        "",
			"fd00::0A":        `IPv6 address "fd00::0A" should be in RFC 5952 canonical format ("fd00::a")`,
			"fd00:0:0:0::1":   `IPv6 address "fd00:0:0:0::1" should be in RFC 5952 canonical format ("fd00::1")`,
			"010.0.0.1":       `non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"`,
			"::ffff:10.0.0.1": `non-standard IP address "::ffff:10.0.0.1" is invalid: use "10.0.0.1"`,
			"none of both":    "",
		} {
			k := kindOf(t, tc.kind)
			var all []string
			if want != "" {
				all = []string{tc.path + ": " + want}
			}
			if diff := cmp.Diff(all, k.Warnings(context.Background(), read(t, k, fmt.Sprintf(tc.obj, ip)), nil)); diff != "" {
				t.Errorf("%s of a %s (-want +got):\n%s", tc.path, tc.kind, diff)
			}
		}
	}
	k := kindOf(t, "NetworkPolicy")
	if diff := cmp.Diff([]string{
		`spec.ingress[1].from[0].ipBlock.cidr: IPv6 CIDR value "fd00:0::/64" should be in RFC 5952 canonical format ("fd00::/64")`,
		`spec.egress[0].to[1].ipBlock.except[0]: CIDR value "10.0.0.1/24" is ambiguous in this context (should be "10.0.0.0/24" or "10.0.0.1/32"?)`,
	}, k.Warnings(context.Background(), read(t, k, `{spec: {ingress: [{}, {from: [{ipBlock: {cidr: "fd00:0::/64"}}]}],
		egress: [{to: [{podSelector: {}}, {ipBlock: {cidr: "10.0.0.0/8", except: ["10.0.0.1/24", x]}}]}]}}`), nil)); diff != "" {
		t.Errorf("a policy (-want +got):\n%s", diff)
	}
	k = kindOf(t, "Service")
	got := k.Warnings(context.Background(), read(t, k, `{spec: {clusterIP: None, clusterIPs: [None], sessionAffinity: ClientIP, externalIPs: ["1.2.3.4"], loadBalancerIP: "1.2.3.4", loadBalancerSourceRanges: ["fd00::1/64", x]}}`), nil)
	want := []string{
		`spec.loadBalancerSourceRanges[0]: CIDR value "fd00::1/64" is ambiguous in this context (should be "fd00::/64" or "fd00::1/128"?)`,
		`spec.loadBalancerIP is ignored when spec.clusterIP is "None"`,
		`spec.externalIPs is ignored when spec.clusterIP is "None"`,
		`spec.SessionAffinity is ignored when spec.clusterIP is "None"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a headless service (-want +got):\n%s", diff)
	}
}
