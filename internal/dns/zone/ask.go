package zone

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/setpoint-project/setpoint/internal/dns/wire"
)

// question is one being answered; the zone is locked for reading.
type question struct {
	zone  *Zone
	name  string // as it was asked
	qtype uint16
}

// missing says that a name does not exist, empty that it has no records.
var (
	missing = Answer{}
	empty   = Answer{Found: true}
)

// forward answers for what stands before the domain, label by label.
func (q question) forward(labels []string) Answer {
	n := len(labels)
	if n == 0 {
		return q.apexRecords()
	}
	switch labels[n-1] {
	case "dns-version":
		if n > 1 {
			return missing
		}
		return q.only(dns.TypeTXT, &dns.TXT{Hdr: q.header(dns.TypeTXT), Txt: []string{version}})
	case "dns":
		if n == 1 {
			return empty
		}
		if n == 2 && labels[0] == "ns" {
			return q.addresses(q.zone.serviceIPs...)
		}
	case "pod":
		return q.pod(labels[:n-1])
	case "svc":
		return q.service(labels[:n-1])
	}
	return missing
}

func (q question) apexRecords() Answer {
	switch q.qtype {
	case dns.TypeSOA:
		return Answer{Found: true, Records: []dns.RR{q.zone.soaLocked(q.name)}}
	case dns.TypeNS:
		ns := "ns.dns." + q.zone.domain
		a := Answer{Found: true, Records: []dns.RR{&dns.NS{Hdr: q.header(dns.TypeNS), Ns: ns}}}
		a.Extra = q.glue(ns, q.zone.serviceIPs...)
		return a
	}
	return empty
}

// pod answers for a pod's address in dashes. As with CoreDNS's "insecure" mode,
// which kubeadm sets up, no pod needs to have it: the specification calls these
// names deprecated, and following every pod for their sake would cost every
// node.
func (q question) pod(labels []string) Answer {
	n := len(labels)
	if n == 0 {
		return empty
	}
	if !q.zone.namespaceLocked(labels[n-1]) || n > 2 {
		return missing
	}
	if n == 1 {
		return empty
	}
	ip, err := netip.ParseAddr(strings.ReplaceAll(labels[0], "-", "."))
	if err != nil {
		ip, err = netip.ParseAddr(strings.ReplaceAll(labels[0], "-", ":"))
	}
	if err != nil {
		return missing
	}
	return q.addresses(ip)
}

func (q question) service(labels []string) Answer {
	n := len(labels)
	if n == 0 {
		return empty
	}
	namespace := labels[n-1]
	if n == 1 {
		if !q.zone.namespaceLocked(namespace) {
			return missing
		}
		return empty
	}
	s := q.zone.mu.services[namespace+"/"+labels[n-2]]
	switch {
	case s == nil:
		return missing
	case n == 2:
		return q.all(s)
	case s.Target != "":
		return missing
	case strings.HasPrefix(labels[n-3], "_"):
		return q.ports(s, labels[:n-2])
	case n == 3:
		return q.endpoint(s, labels[0])
	}
	return missing
}

// all answers for a service's own name.
func (q question) all(s *wire.Service) Answer {
	if s.Target != "" {
		target := dns.Fqdn(s.Target)
		return Answer{Found: true, Target: target, Records: []dns.RR{&dns.CNAME{Hdr: q.header(dns.TypeCNAME), Target: target}}}
	}
	ips := s.IPs
	for i := range s.Endpoints {
		ips = append(ips[:len(ips):len(ips)], s.Endpoints[i].IP)
	}
	if len(ips) == 0 {
		return missing // a headless service without a ready endpoint: as CoreDNS has it
	}
	return q.addresses(ips...)
}

func (q question) endpoint(s *wire.Service, host string) Answer {
	var ips []netip.Addr
	for i := range s.Endpoints {
		if e := &s.Endpoints[i]; hostname(e) == host {
			ips = append(ips, e.IP)
		}
	}
	if len(ips) == 0 {
		return missing
	}
	return q.addresses(ips...)
}

// ports answers for "_tcp" and "_http._tcp" before a service's name.
func (q question) ports(s *wire.Service, labels []string) Answer {
	n := len(labels)
	protocol := labels[n-1][1:]
	port := ""
	switch {
	case n == 2 && strings.HasPrefix(labels[0], "_"):
		port = labels[0][1:]
	case n > 1:
		return missing
	}
	a, told := missing, map[dns.SRV]bool{}
	matches := func(p wire.Port) bool { return p.Protocol == protocol && (n == 1 || p.Name == port) }
	add := func(number uint16, target string, ips ...netip.Addr) {
		if a.Found = true; n == 1 || q.qtype != dns.TypeSRV && q.qtype != dns.TypeANY {
			return
		}
		a.Extra = append(a.Extra, q.glue(target, ips...)...)
		srv := dns.SRV{Hdr: q.header(dns.TypeSRV), Priority: 0, Weight: 100, Port: number, Target: target}
		if !told[srv] { // an endpoint with a hostname is there once for each of its addresses
			told[srv] = true
			a.Records = append(a.Records, &srv)
		}
	}
	for _, p := range s.Ports {
		if matches(p) && len(s.IPs) > 0 {
			add(p.Number, q.zone.serviceName(s), s.IPs...)
		}
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		for _, p := range e.Ports {
			if matches(p) {
				add(p.Number, hostname(e)+"."+q.zone.serviceName(s), e.IP)
			}
		}
	}
	return a
}

// reverse answers for the name of an address.
func (q question) reverse(lower string) Answer {
	ip, _ := reverse(lower)
	names := q.zone.mu.pointers[ip]
	if len(names) == 0 {
		return missing
	}
	a := empty
	for p := range names {
		if q.qtype == dns.TypePTR || q.qtype == dns.TypeANY {
			a.Records = append(a.Records, &dns.PTR{Hdr: q.header(dns.TypePTR), Ptr: p.name})
		}
	}
	return a
}

// glue are the addresses of a name that stands in another record.
func (q question) glue(name string, ips ...netip.Addr) (records []dns.RR) {
	for _, family := range []uint16{dns.TypeA, dns.TypeAAAA} {
		records = append(records, question{q.zone, name, family}.addresses(ips...).Records...)
	}
	return records
}

// addresses answers with those of the family that was asked for.
func (q question) addresses(ips ...netip.Addr) Answer {
	a := empty
	for _, ip := range ips {
		switch {
		case ip.Is4() && (q.qtype == dns.TypeA || q.qtype == dns.TypeANY):
			a.Records = append(a.Records, &dns.A{Hdr: q.header(dns.TypeA), A: ip.AsSlice()})
		case ip.Is6() && (q.qtype == dns.TypeAAAA || q.qtype == dns.TypeANY):
			a.Records = append(a.Records, &dns.AAAA{Hdr: q.header(dns.TypeAAAA), AAAA: ip.AsSlice()})
		}
	}
	return a
}

// only answers with a record when its type was asked for.
func (q question) only(qtype uint16, rr dns.RR) Answer {
	a := empty
	if q.qtype == qtype || q.qtype == dns.TypeANY {
		a.Records = []dns.RR{rr}
	}
	return a
}

func (q question) header(rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: q.name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: TTL}
}
