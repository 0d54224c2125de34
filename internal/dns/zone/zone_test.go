package zone_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/setpoint-project/setpoint/internal/dns/wire"
	"github.com/setpoint-project/setpoint/internal/dns/zone"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func testZone() *zone.Zone {
	z := zone.New(wire.Config{Domain: "cluster.local", ServiceIPs: []netip.Addr{ip("10.43.0.10"), ip("fd00:43::a")},
		Ranges: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16"), netip.MustParsePrefix("10.43.0.0/16"), netip.MustParsePrefix("fd00:42::/56"), netip.MustParsePrefix("fd00:43::/108")}})
	for _, ns := range []string{"default", "empty"} {
		z.SetNamespace(ns, true)
	}
	http := []wire.Port{{Name: "http", Protocol: "tcp", Number: 80}, {Name: "http-udp", Protocol: "udp", Number: 81}}
	z.Set(&wire.Service{Namespace: "default", Name: "web", IPs: []netip.Addr{ip("10.43.0.7")}, Ports: http})
	z.Set(&wire.Service{Namespace: "default", Name: "dual", IPs: []netip.Addr{ip("10.43.0.8"), ip("fd00:43::8")}})
	sql := []wire.Port{{Name: "sql", Protocol: "tcp", Number: 5432}}
	z.Set(&wire.Service{Namespace: "other", Name: "db", Endpoints: []wire.Endpoint{
		{IP: ip("10.42.0.5"), Hostname: "db-0", Ports: sql}, {IP: ip("10.42.1.6"), Ports: sql}}})
	z.Set(&wire.Service{Namespace: "other", Name: "pair", Endpoints: []wire.Endpoint{
		{IP: ip("10.42.0.8"), Hostname: "p-0", Ports: sql}, {IP: ip("fd00:42::5"), Hostname: "p-0", Ports: sql}, {IP: ip("fd00:42::6"), Ports: sql}}})
	z.Set(&wire.Service{Namespace: "other", Name: "six", IPs: []netip.Addr{ip("fd00:43::6")}, Ports: sql})
	z.Set(&wire.Service{Namespace: "other", Name: "waiting"})
	z.Set(&wire.Service{Namespace: "default", Name: "far", Target: "www.example.test"})
	return z
}

// say writes an answer down: a line for each record, in order.
func say(a zone.Answer) string {
	if !a.Found {
		return "no such name"
	}
	if len(a.Records) == 0 {
		return "no records"
	}
	var lines []string
	for _, rr := range a.Records {
		f := strings.Fields(rr.String())
		lines = append(lines, strings.Join(append([]string{f[0]}, f[3:]...), " "))
	}
	for _, rr := range a.Extra {
		f := strings.Fields(rr.String())
		lines = append(lines, "also "+f[0]+" "+f[4])
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestSpecification goes through the specification, section by section.
// https://github.com/kubernetes/dns/blob/master/docs/specification.md
func TestSpecification(t *testing.T) {
	z := testZone()
	for _, c := range []struct {
		section, name string
		qtype         uint16
		want          string
	}{
		{"2.2 version", "dns-version.cluster.local.", dns.TypeTXT, `dns-version.cluster.local. TXT "1.1.0"`},
		{"2.3.1 cluster IP", "web.default.svc.cluster.local.", dns.TypeA, "web.default.svc.cluster.local. A 10.43.0.7"},
		{"2.3.1 the spelling is that of the question", "Web.Default.SVC.cluster.local.", dns.TypeA, "Web.Default.SVC.cluster.local. A 10.43.0.7"},
		{"2.3.1 another family", "web.default.svc.cluster.local.", dns.TypeAAAA, "no records"},
		{"2.3.1 both families", "dual.default.svc.cluster.local.", dns.TypeAAAA, "dual.default.svc.cluster.local. AAAA fd00:43::8"},
		{"2.3.2 a port", "_http._tcp.web.default.svc.cluster.local.", dns.TypeSRV,
			"_http._tcp.web.default.svc.cluster.local. SRV 0 100 80 web.default.svc.cluster.local.\nalso web.default.svc.cluster.local. 10.43.0.7"},
		{"2.3.2 of another protocol", "_http._udp.web.default.svc.cluster.local.", dns.TypeSRV, "no such name"},
		{"2.3.2 no such port", "_grpc._tcp.web.default.svc.cluster.local.", dns.TypeSRV, "no such name"},
		{"2.3.2 a protocol alone", "_tcp.web.default.svc.cluster.local.", dns.TypeSRV, "no records"},
		{"2.3.3 reverse", "7.0.43.10.in-addr.arpa.", dns.TypePTR, "7.0.43.10.in-addr.arpa. PTR web.default.svc.cluster.local."},
		{"2.3.3 reverse, IPv6", "8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.4.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR,
			"8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.4.0.0.0.0.d.f.ip6.arpa. PTR dual.default.svc.cluster.local."},
		{"2.4.1 headless", "db.other.svc.cluster.local.", dns.TypeA, "db.other.svc.cluster.local. A 10.42.0.5\ndb.other.svc.cluster.local. A 10.42.1.6"},
		{"2.4.1 a hostname", "db-0.db.other.svc.cluster.local.", dns.TypeA, "db-0.db.other.svc.cluster.local. A 10.42.0.5"},
		{"2.4.1 a name made from the address", "10-42-1-6.db.other.svc.cluster.local.", dns.TypeA, "10-42-1-6.db.other.svc.cluster.local. A 10.42.1.6"},
		{"2.4.1 that address has a name", "10-42-0-5.db.other.svc.cluster.local.", dns.TypeA, "no such name"},
		{"2.4.1 nobody is ready", "waiting.other.svc.cluster.local.", dns.TypeA, "no such name"},
		{"2.3.1 of IPv6 only", "six.other.svc.cluster.local.", dns.TypeAAAA, "six.other.svc.cluster.local. AAAA fd00:43::6"},
		{"2.3.1 IPv4 of one of IPv6 only", "six.other.svc.cluster.local.", dns.TypeA, "no records"},
		{"2.3.2 a port at IPv6", "_sql._tcp.six.other.svc.cluster.local.", dns.TypeSRV,
			"_sql._tcp.six.other.svc.cluster.local. SRV 0 100 5432 six.other.svc.cluster.local.\nalso six.other.svc.cluster.local. fd00:43::6"},
		{"2.4.1 a hostname in both families", "p-0.pair.other.svc.cluster.local.", dns.TypeA, "p-0.pair.other.svc.cluster.local. A 10.42.0.8"},
		{"2.4.1 and the other", "p-0.pair.other.svc.cluster.local.", dns.TypeAAAA, "p-0.pair.other.svc.cluster.local. AAAA fd00:42::5"},
		{"2.4.1 headless, IPv6", "pair.other.svc.cluster.local.", dns.TypeAAAA, "pair.other.svc.cluster.local. AAAA fd00:42::5\npair.other.svc.cluster.local. AAAA fd00:42::6"},
		{"2.4.1 a name made from IPv6", "fd00-42--6.pair.other.svc.cluster.local.", dns.TypeAAAA, "fd00-42--6.pair.other.svc.cluster.local. AAAA fd00:42::6"},
		{"2.4.1 which has no IPv4", "fd00-42--6.pair.other.svc.cluster.local.", dns.TypeA, "no records"},
		{"2.4.2 a port of both families, once", "_sql._tcp.pair.other.svc.cluster.local.", dns.TypeSRV,
			"_sql._tcp.pair.other.svc.cluster.local. SRV 0 100 5432 fd00-42--6.pair.other.svc.cluster.local.\n_sql._tcp.pair.other.svc.cluster.local. SRV 0 100 5432 p-0.pair.other.svc.cluster.local.\n" +
				"also fd00-42--6.pair.other.svc.cluster.local. fd00:42::6\nalso p-0.pair.other.svc.cluster.local. 10.42.0.8\nalso p-0.pair.other.svc.cluster.local. fd00:42::5"},
		{"2.4.3 reverse of an endpoint, IPv6", "5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.4.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR,
			"5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.4.0.0.0.0.d.f.ip6.arpa. PTR p-0.pair.other.svc.cluster.local."},
		{"an IPv6 address that nobody has", "9.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.4.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR, "no such name"},
		{"2.4.2 ports of endpoints", "_sql._tcp.db.other.svc.cluster.local.", dns.TypeSRV,
			"_sql._tcp.db.other.svc.cluster.local. SRV 0 100 5432 10-42-1-6.db.other.svc.cluster.local.\n_sql._tcp.db.other.svc.cluster.local. SRV 0 100 5432 db-0.db.other.svc.cluster.local.\n" +
				"also 10-42-1-6.db.other.svc.cluster.local. 10.42.1.6\nalso db-0.db.other.svc.cluster.local. 10.42.0.5"},
		{"2.4.3 reverse of an endpoint", "5.0.42.10.in-addr.arpa.", dns.TypePTR, "5.0.42.10.in-addr.arpa. PTR db-0.db.other.svc.cluster.local."},
		{"2.5 external", "far.default.svc.cluster.local.", dns.TypeA, "far.default.svc.cluster.local. CNAME www.example.test."},
		{"2.6 pod", "10-42-7-9.default.pod.cluster.local.", dns.TypeA, "10-42-7-9.default.pod.cluster.local. A 10.42.7.9"},
		{"2.6 pod, IPv6", "fd00--9.default.pod.cluster.local.", dns.TypeAAAA, "fd00--9.default.pod.cluster.local. AAAA fd00::9"},
		{"2.6 a pod of no namespace", "10-42-7-9.nowhere.pod.cluster.local.", dns.TypeA, "no such name"},
		{"2.6 no address", "web.default.pod.cluster.local.", dns.TypeA, "no such name"},

		{"no such service", "webb.default.svc.cluster.local.", dns.TypeA, "no such name"},
		{"a search domain too many", "web.default.svc.cluster.local.default.svc.cluster.local.", dns.TypeA, "no such name"},
		{"a name from without, searched", "www.example.test.default.svc.cluster.local.", dns.TypeA, "no such name"},
		{"names above others", "default.svc.cluster.local.", dns.TypeA, "no records"},
		{"a namespace without services", "empty.svc.cluster.local.", dns.TypeA, "no records"},
		{"a namespace known by its service only", "other.svc.cluster.local.", dns.TypeA, "no records"},
		{"no namespace", "nowhere.svc.cluster.local.", dns.TypeA, "no such name"},
		{"the root of services", "svc.cluster.local.", dns.TypeA, "no records"},
		{"the domain", "cluster.local.", dns.TypeA, "no records"},
		{"who serves it", "cluster.local.", dns.TypeNS, "also ns.dns.cluster.local. 10.43.0.10\nalso ns.dns.cluster.local. fd00:43::a\ncluster.local. NS ns.dns.cluster.local."},
		{"where that is", "ns.dns.cluster.local.", dns.TypeA, "ns.dns.cluster.local. A 10.43.0.10"},
		{"and in the other family", "ns.dns.cluster.local.", dns.TypeAAAA, "ns.dns.cluster.local. AAAA fd00:43::a"},
		{"an address that nobody has", "9.9.43.10.in-addr.arpa.", dns.TypePTR, "no such name"},
	} {
		if !z.Holds(c.name) {
			t.Errorf("%s: the zone does not hold %s", c.section, c.name)
			continue
		}
		a := z.Ask(c.name, c.qtype)
		if d := cmp.Diff(c.want, say(a)); d != "" {
			t.Errorf("%s: %s %s (-want +got):\n%s", c.section, dns.TypeToString[c.qtype], c.name, d)
		}
		if (a.SOA != nil) != (len(a.Records) == 0) {
			t.Errorf("%s: an answer with %d records and the SOA %v", c.section, len(a.Records), a.SOA)
		}
	}
	for _, name := range []string{"example.test.", "local.", "xcluster.local.", "1.0.0.127.in-addr.arpa.", "43.10.in-addr.arpa.", "."} {
		if z.Holds(name) {
			t.Errorf("the zone holds %s", name)
		}
	}
}

// TestChanges: whatever came before, a zone answers as one that was told only
// what is there now.
func TestChanges(t *testing.T) {
	z := zone.New(wire.Config{Domain: "cluster.local", Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	ask := func(name string, qtype uint16) string { return say(z.Ask(name, qtype)) }
	set := func(ips ...string) {
		s := &wire.Service{Namespace: "a", Name: "web"}
		for _, text := range ips {
			s.IPs = append(s.IPs, ip(text))
		}
		z.Set(s)
	}
	expect := func(what string, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	set("10.43.0.1")
	set("10.43.0.2")
	expect("the new address", ask("web.a.svc.cluster.local.", dns.TypeA), "web.a.svc.cluster.local. A 10.43.0.2")
	expect("the old one's name", ask("1.0.43.10.in-addr.arpa.", dns.TypePTR), "no such name")
	// Another service takes the address over before the first lets it go.
	z.Set(&wire.Service{Namespace: "b", Name: "web", IPs: []netip.Addr{ip("10.43.0.2")}})
	z.Remove("a/web")
	z.Remove("a/web")
	expect("who has the address", ask("2.0.43.10.in-addr.arpa.", dns.TypePTR), "2.0.43.10.in-addr.arpa. PTR web.b.svc.cluster.local.")
	expect("a namespace that went with its last service", ask("a.svc.cluster.local.", dns.TypeA), "no such name")
	z.SetNamespace("b", true)
	z.SetNamespace("b", true)
	z.Remove("b/web")
	expect("a namespace that stays", ask("b.svc.cluster.local.", dns.TypeA), "no records")
	z.SetNamespace("b", false)
	expect("and goes", ask("b.svc.cluster.local.", dns.TypeA), "no such name")
}

// BenchmarkAsk is a name of one service among ten thousand.
func BenchmarkAsk(b *testing.B) {
	z := testZone()
	for i := range 10_000 {
		z.Set(&wire.Service{Namespace: "default", Name: fmt.Sprint("s", i), IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 43, byte(i >> 8), byte(i)})}})
	}
	b.ReportAllocs()
	for b.Loop() {
		z.Ask("s77.default.svc.cluster.local.", dns.TypeA)
	}
}
