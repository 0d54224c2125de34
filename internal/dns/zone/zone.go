// Package zone answers for the names of a cluster, by the Kubernetes DNS
// specification 1.1
// (https://github.com/kubernetes/dns/blob/master/docs/specification.md):
//
//	web.default.svc.cluster.local            A     cluster IPs, or ready endpoints of a headless service
//	                                         CNAME of an external service
//	_http._tcp.web.default.svc.cluster.local SRV   for each named port
//	db-0.db.default.svc.cluster.local        A     an endpoint with a hostname; 10-42-0-7.db... without one
//	10-42-0-7.default.pod.cluster.local      A     of any pod, by its address
//	10.0.43.10.in-addr.arpa                  PTR   cluster IPs, endpoints of headless services
//	dns-version.cluster.local                TXT   "1.1.0"
//
// Addresses of IPv6 have AAAA records, and names below ip6.arpa, in the same
// way. A name that has addresses of one family only exists in the other as
// well, without records: a resolver asks for both, and takes "no such name" for
// the whole name.
//
// What does not exist is answered at once, with the SOA by which resolvers may
// remember it for a moment: a pod's resolver tries each of its search domains.
// A name that only has others below it exists, without records (RFC 8020).
//
// A Zone may be asked and changed by many goroutines. A change costs what the
// service has, whatever else there is.
package zone

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"

	"github.com/setpoint-project/setpoint/internal/dns/wire"
)

// TTL of every record, in seconds. Addresses change with pods; five seconds is
// CoreDNS's choice too.
const TTL = 5

// version of the specification.
const version = "1.1.0"

// Zone is a picture of the cluster's names.
type Zone struct {
	domain     string // "cluster.local."
	labels     int    // of domain
	ranges     []netip.Prefix
	serviceIPs []netip.Addr

	mu struct {
		sync.RWMutex
		services   map[string]*wire.Service
		namespaces map[string]bool                     // those there are
		owners     map[string]int                      // namespaces by how many services they have
		pointers   map[netip.Addr]map[pointer]struct{} // what each address is called, and for whose sake
		serial     uint32
	}
}

// pointer is a name that a service gives to an address.
type pointer struct{ service, name string }

// New makes an empty zone.
func New(c wire.Config) *Zone {
	z := &Zone{domain: dns.Fqdn(strings.ToLower(c.Domain)), ranges: c.Ranges, serviceIPs: c.ServiceIPs}
	z.labels = dns.CountLabel(z.domain)
	z.mu.services = map[string]*wire.Service{}
	z.mu.namespaces, z.mu.owners = map[string]bool{}, map[string]int{}
	z.mu.pointers = map[netip.Addr]map[pointer]struct{}{}
	return z
}

// Set puts a service in the place of the one with its name.
func (z *Zone) Set(s *wire.Service) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.removeLocked(s.Key())
	z.mu.services[s.Key()] = s
	z.mu.owners[s.Namespace]++
	z.eachPointer(s, func(ip netip.Addr, p pointer) {
		if z.mu.pointers[ip] == nil {
			z.mu.pointers[ip] = map[pointer]struct{}{}
		}
		z.mu.pointers[ip][p] = struct{}{}
	})
	z.mu.serial++
}

// Remove forgets a service, by namespace and name.
func (z *Zone) Remove(key string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.removeLocked(key)
	z.mu.serial++
}

func (z *Zone) removeLocked(key string) {
	s := z.mu.services[key]
	if s == nil {
		return
	}
	delete(z.mu.services, key)
	if z.mu.owners[s.Namespace]--; z.mu.owners[s.Namespace] == 0 {
		delete(z.mu.owners, s.Namespace)
	}
	z.eachPointer(s, func(ip netip.Addr, p pointer) {
		delete(z.mu.pointers[ip], p)
		if len(z.mu.pointers[ip]) == 0 {
			delete(z.mu.pointers, ip)
		}
	})
}

// SetNamespace says whether there is a namespace: the names of pods need no
// service.
func (z *Zone) SetNamespace(name string, there bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if there {
		z.mu.namespaces[name] = true
	} else {
		delete(z.mu.namespaces, name)
	}
}

func (z *Zone) namespaceLocked(name string) bool {
	return z.mu.namespaces[name] || z.mu.owners[name] > 0
}

func (z *Zone) eachPointer(s *wire.Service, f func(netip.Addr, pointer)) {
	for _, ip := range s.IPs {
		f(ip, pointer{s.Key(), z.serviceName(s)})
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		f(e.IP, pointer{s.Key(), hostname(e) + "." + z.serviceName(s)})
	}
}

func (z *Zone) serviceName(s *wire.Service) string {
	return s.Name + "." + s.Namespace + ".svc." + z.domain
}

// hostname of an endpoint; its address in dashes when nobody gave it one.
func hostname(e *wire.Endpoint) string {
	if e.Hostname != "" {
		return e.Hostname
	}
	return strings.NewReplacer(".", "-", ":", "-").Replace(e.IP.String())
}

// Answer is what a zone says to a question.
type Answer struct {
	// Found is false for a name that does not exist.
	Found   bool
	Records []dns.RR
	Extra   []dns.RR
	// Target is where a CNAME among the records leads.
	Target string
	// SOA is to go with an answer without records.
	SOA dns.RR
}

// Holds tells whether a name is this zone's to answer.
func (z *Zone) Holds(name string) bool {
	name = strings.ToLower(name)
	if dns.IsSubDomain(z.domain, name) {
		return true
	}
	ip, whole := reverse(name)
	if !whole {
		return false // a part of the tree above single addresses: somebody else's
	}
	return slices.ContainsFunc(z.ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Ask answers a question for a name that the zone holds. The records' names
// are spelled as the question's.
func (z *Zone) Ask(name string, qtype uint16) Answer {
	z.mu.RLock()
	defer z.mu.RUnlock()
	q := question{zone: z, name: name, qtype: qtype}
	lower := strings.ToLower(name)
	var a Answer
	if dns.IsSubDomain(z.domain, lower) {
		labels := dns.SplitDomainName(lower)
		a = q.forward(labels[:len(labels)-z.labels])
	} else {
		a = q.reverse(lower)
	}
	if len(a.Records) == 0 {
		a.SOA = z.soaLocked(name)
	}
	return a
}

// apex of the zone that a name is in: the domain, or the reverse tree.
func (z *Zone) apex(name string) string {
	switch lower := strings.ToLower(name); {
	case dns.IsSubDomain(z.domain, lower):
		return z.domain
	case strings.HasSuffix(lower, ".ip6.arpa."):
		return "ip6.arpa."
	}
	return "in-addr.arpa."
}

func (z *Zone) soaLocked(name string) dns.RR {
	apex := z.apex(name)
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: apex, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: TTL},
		Ns:  "ns.dns." + z.domain, Mbox: "hostmaster." + z.domain,
		Serial: z.mu.serial, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: TTL,
	}
}

// reverse reads the address that a name below in-addr.arpa or ip6.arpa stands
// for; whole is false when it is not that of a single address.
func reverse(name string) (ip netip.Addr, whole bool) {
	text, four := strings.CutSuffix(name, ".in-addr.arpa.")
	if four {
		parts := strings.Split(text, ".")
		slices.Reverse(parts)
		ip, err := netip.ParseAddr(strings.Join(parts, "."))
		return ip, err == nil && ip.Is4()
	}
	text, six := strings.CutSuffix(name, ".ip6.arpa.")
	if !six {
		return netip.Addr{}, false
	}
	digits := strings.ReplaceAll(text, ".", "")
	if len(digits) != 32 || len(text) != 63 {
		return netip.Addr{}, false
	}
	var b strings.Builder
	for i := range 32 {
		if i > 0 && i%4 == 0 {
			b.WriteByte(':')
		}
		b.WriteByte(digits[31-i])
	}
	ip, err := netip.ParseAddr(b.String())
	return ip, err == nil
}
