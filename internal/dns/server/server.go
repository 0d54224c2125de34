// Package server is the cluster's DNS server on one node. It answers for the
// cluster's names from a zone that the node keeps current over a Unix socket
// (see package wire), and asks the node's resolvers for all others.
//
// It is a process of its own (cmd/dns): names are answered while Setpoint is
// down, and package initialisation of the big binary is not paid twice. It
// holds no file but its sockets, and gives up root once it has them.
//
// Other names: a question that is being asked already is not asked again, but
// shares the answer. So a resolver that leads back here costs one question,
// which ends by time; as such a resolver is found by a name of our own that
// comes back, it is asked no more. Answers are not kept: resolvers do that.
// Where the node has no resolver, other names are refused.
package server

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/setpoint-project/setpoint/internal/dns/zone"
)

const (
	// maxChase bounds how many aliases are followed within the cluster.
	maxChase = 8
	// udpSize is what we say that we take, as the DNS flag day of 2020 has it.
	udpSize = 1232
	// questionTime bounds the whole of an answer that others have a part in.
	questionTime = 5 * time.Second
)

// Server answers. Use New, then Serve.
type Server struct {
	log      *slog.Logger
	zone     atomic.Pointer[zone.Zone] // nil until the node has told it all for the first time
	upstream *upstream
	control  control
}

// New makes a server that knows no name yet. program is what it says it is.
func New(program string, log *slog.Logger) *Server {
	s := &Server{log: log}
	s.upstream = newUpstream(func() { s.control.tell() })
	s.control = control{server: s, program: program}
	return s
}

// Sockets are where a server answers: on as many addresses as it is given, and
// to the node on Node.
type Sockets struct {
	UDP  []net.PacketConn
	TCP  []net.Listener
	Node net.Listener
}

// Serve answers on the given sockets until ctx ends; it closes them.
func (s *Server) Serve(ctx context.Context, at Sockets) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	handler := dns.HandlerFunc(s.serve)
	serve := func(one *dns.Server) { cancel(one.ActivateAndServe()) }
	for _, conn := range at.UDP {
		if addr, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			s.control.at = append(s.control.at, addr.AddrPort())
		}
		defer conn.Close()
		go serve(&dns.Server{PacketConn: conn, Handler: handler, UDPSize: udpSize})
	}
	for _, l := range at.TCP {
		defer l.Close()
		go serve(&dns.Server{Listener: l, Handler: handler, MaxTCPQueries: -1, IdleTimeout: func() time.Duration { return 10 * time.Second }})
	}
	defer at.Node.Close()
	go func() { cancel(s.control.serve(at.Node)) }()
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *Server) serve(w dns.ResponseWriter, r *dns.Msg) {
	answer := s.Answer(r, isUDP(w))
	if answer == nil {
		return
	}
	if err := w.WriteMsg(answer); err != nil {
		s.log.Debug("an answer is lost", "to", w.RemoteAddr(), "error", err)
	}
}

func isUDP(w dns.ResponseWriter) bool {
	_, ok := w.RemoteAddr().(*net.UDPAddr)
	return ok
}

// Answer makes the answer to a message; nil: none is due.
func (s *Server) Answer(r *dns.Msg, udp bool) *dns.Msg {
	if r.Response {
		return nil // two servers that answer each other would never end
	}
	m := new(dns.Msg)
	m.SetReply(r)
	m.RecursionAvailable = true
	opt := r.IsEdns0()
	switch {
	case r.Opcode != dns.OpcodeQuery:
		m.Rcode = dns.RcodeNotImplemented
		return m
	case len(r.Question) != 1:
		m.Rcode = dns.RcodeFormatError
		return m
	case opt != nil && opt.Version() != 0:
		m.SetEdns0(udpSize, false)
		m.Rcode = dns.RcodeBadVers
		return m
	}
	q := r.Question[0]
	z := s.zone.Load()
	switch {
	case q.Qclass != dns.ClassINET && q.Qclass != dns.ClassANY:
		m.Rcode = dns.RcodeRefused
	case s.upstream.cameBack(q.Name):
		m.Rcode = dns.RcodeNameError
	case z == nil:
		m.Rcode = dns.RcodeServerFailure
	case z.Holds(q.Name):
		s.answerOwn(z, m, r, udp)
	default:
		m = s.upstream.ask(r, m, udp)
	}
	if opt != nil && m.IsEdns0() == nil {
		m.SetEdns0(udpSize, opt.Do())
	}
	if udp {
		size := dns.MinMsgSize
		if opt != nil {
			size = max(size, min(int(opt.UDPSize()), udpSize))
		}
		m.Truncate(size)
	}
	return m
}

// answerOwn fills in what the zone knows, and follows aliases: those who ask
// do not, as a rule.
func (s *Server) answerOwn(z *zone.Zone, m, r *dns.Msg, udp bool) {
	q := r.Question[0]
	m.Authoritative, m.Compress = true, true
	name := q.Name
	for range maxChase {
		a := z.Ask(name, q.Qtype)
		if !a.Found && name == q.Name {
			m.Rcode = dns.RcodeNameError
		}
		shuffle(a.Records)
		m.Answer = append(m.Answer, a.Records...)
		m.Extra = append(m.Extra, a.Extra...)
		if a.SOA != nil {
			m.Ns = append(m.Ns, a.SOA)
		}
		if a.Target == "" || q.Qtype == dns.TypeCNAME {
			return
		}
		if name = a.Target; z.Holds(name) {
			continue
		}
		// The rest of the way is somebody else's. Without them the alias alone
		// is the answer.
		on := r.Copy()
		on.Question[0].Name = name
		reply := new(dns.Msg)
		reply.SetReply(on)
		if rest := s.upstream.ask(on, reply, udp); rest.Rcode == dns.RcodeSuccess {
			m.Answer = append(m.Answer, rest.Answer...)
			m.Truncated = rest.Truncated
		}
		return
	}
}

// shuffle spreads those who take the first address.
func shuffle(records []dns.RR) {
	rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
}

// sameName compares as DNS does.
func sameName(a, b string) bool { return strings.EqualFold(dns.Fqdn(a), dns.Fqdn(b)) }
