package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/setpoint-project/setpoint/internal/dns/wire"
	"github.com/setpoint-project/setpoint/test/freeport"
)

// running is a server on loopback with a node that talks to it.
type running struct {
	t      *testing.T
	server *Server
	addr   string // UDP and TCP
	socket string
}

func start(t *testing.T) *running {
	t.Helper()
	r := &running{t: t, server: New("test", slog.New(slog.DiscardHandler)), socket: filepath.Join(t.TempDir(), "s")}
	tcp, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", freeport.Port(t))) // where UDP is free as well
	r.must(err)
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	r.must(err)
	node, err := net.Listen("unix", r.socket)
	r.must(err)
	r.addr = tcp.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		r.server.Serve(ctx, Sockets{UDP: []net.PacketConn{udp}, TCP: []net.Listener{tcp}, Node: node})
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *running) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// node connects as the node, and tells what it is given. It returns once the
// server has taken it all.
func (r *running) node(messages ...wire.Message) net.Conn {
	r.t.Helper()
	conn, err := net.Dial("unix", r.socket)
	r.must(err)
	r.t.Cleanup(func() { conn.Close() })
	var hello wire.Status
	r.must(json.NewDecoder(conn).Decode(&hello))
	if hello.Program != "test" {
		r.t.Errorf("it says that it is %q", hello.Program)
	}
	out := json.NewEncoder(conn)
	for _, m := range messages {
		r.must(out.Encode(m))
	}
	return conn
}

func (r *running) ask(network, name string, qtype uint16) *dns.Msg {
	r.t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(name, qtype)
	answer, _, err := (&dns.Client{Net: network, Timeout: time.Minute}).Exchange(m, r.addr)
	r.must(err)
	return answer
}

// until asks until the answer is as wanted: what the node says takes effect a
// moment later.
func (r *running) until(name, want string) {
	r.t.Helper()
	for {
		got := ""
		for _, rr := range r.ask("udp", name, dns.TypeA).Answer {
			if a, ok := rr.(*dns.A); ok {
				got = a.A.String()
			}
		}
		if got == want {
			return
		}
		if r.t.Context().Err() != nil {
			r.t.Fatalf("%s has %q, want %q", name, got, want)
		}
	}
}

// fakeResolver is one of the node's, on loopback: it answers by f.
func fakeResolver(t *testing.T, f func(*dns.Msg) *dns.Msg) (port uint16) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if m := f(r); m != nil {
			w.WriteMsg(m)
		}
	})}
	go s.ActivateAndServe()
	t.Cleanup(func() { conn.Close() })
	return uint16(conn.LocalAddr().(*net.UDPAddr).Port)
}

func resolvConf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func config(resolvers string) wire.Message {
	return wire.Message{Config: &wire.Config{Domain: "cluster.local", ServiceIPs: []netip.Addr{netip.MustParseAddr("10.43.0.10"), netip.MustParseAddr("fd00:43::a")}, ResolvConf: resolvers,
		Ranges: []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")}}}
}

func service(name, addr string) wire.Message {
	return wire.Message{Service: &wire.Service{Namespace: "default", Name: name, IPs: []netip.Addr{netip.MustParseAddr(addr)}}}
}

var synced = wire.Message{Synced: true}

// TestTold: before it was told, a server fails rather than denies; then it
// follows, and what it knew last holds while the node is away, until the
// next picture is whole.
func TestTold(t *testing.T) {
	r := start(t)
	if got := r.ask("udp", "web.default.svc.cluster.local.", dns.TypeA); got.Rcode != dns.RcodeServerFailure {
		t.Errorf("before it was told: %s, want SERVFAIL", dns.RcodeToString[got.Rcode])
	}
	first := r.node(config(""), service("web", "10.43.0.1"), synced, service("later", "10.43.0.2"))
	r.until("web.default.svc.cluster.local.", "10.43.0.1")
	r.until("later.default.svc.cluster.local.", "10.43.0.2")
	r.must(json.NewEncoder(first).Encode(wire.Message{Gone: "default/later"}))
	r.until("later.default.svc.cluster.local.", "")

	first.Close()
	second := r.node(config(""), service("web", "10.43.0.3"))
	r.until("web.default.svc.cluster.local.", "10.43.0.1")
	r.must(json.NewEncoder(second).Encode(synced))
	r.until("web.default.svc.cluster.local.", "10.43.0.3")

	r.node() // the second is let go
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("two nodes at once")
	}
	r.until("web.default.svc.cluster.local.", "10.43.0.3")
}

func TestAnswers(t *testing.T) {
	r := start(t)
	many := wire.Message{Service: &wire.Service{Namespace: "default", Name: "many"}}
	for i := range 60 {
		many.Service.Endpoints = append(many.Service.Endpoints, wire.Endpoint{IP: netip.AddrFrom4([4]byte{10, 42, 0, byte(i + 2)})})
	}
	far := wire.Message{Service: &wire.Service{Namespace: "default", Name: "far", Target: "www.example.test"}}
	near := wire.Message{Service: &wire.Service{Namespace: "default", Name: "near", Target: "web.default.svc.cluster.local"}}
	turn := wire.Message{Service: &wire.Service{Namespace: "default", Name: "turn", Target: "turn.default.svc.cluster.local"}}
	r.node(config(""), many, far, near, turn, service("web", "10.43.0.1"), synced)
	r.until("web.default.svc.cluster.local.", "10.43.0.1")

	got := r.ask("udp", "nothing.default.svc.cluster.local.", dns.TypeA)
	if got.Rcode != dns.RcodeNameError || !got.Authoritative || len(got.Ns) != 1 || got.Ns[0].Header().Rrtype != dns.TypeSOA {
		t.Errorf("no such name: %v", got)
	}
	if got = r.ask("udp", "web.default.svc.cluster.local.", dns.TypeAAAA); got.Rcode != dns.RcodeSuccess || len(got.Answer) != 0 || len(got.Ns) != 1 {
		t.Errorf("no such records: %v", got)
	}
	got = r.ask("udp", "many.default.svc.cluster.local.", dns.TypeA)
	if got.Compress = true; !got.Truncated || got.Len() > dns.MinMsgSize {
		t.Errorf("60 addresses by UDP: truncated %t, %d bytes", got.Truncated, got.Len())
	}
	if got = r.ask("tcp", "many.default.svc.cluster.local.", dns.TypeA); got.Truncated || len(got.Answer) != 60 {
		t.Errorf("60 addresses by TCP: truncated %t, %d of them", got.Truncated, len(got.Answer))
	}
	if got = r.ask("udp", "near.default.svc.cluster.local.", dns.TypeA); len(got.Answer) != 2 {
		t.Errorf("an alias within the cluster: %v", got)
	}
	if got = r.ask("udp", "far.default.svc.cluster.local.", dns.TypeA); got.Rcode != dns.RcodeSuccess || len(got.Answer) != 1 {
		t.Errorf("an alias of a name that nobody can look up: %v", got)
	}
	if got = r.ask("udp", "turn.default.svc.cluster.local.", dns.TypeA); got.Rcode != dns.RcodeSuccess || len(got.Answer) != maxChase {
		t.Errorf("an alias of itself: %v", got)
	}
	if got = r.ask("udp", "www.example.test.", dns.TypeA); got.Rcode != dns.RcodeRefused {
		t.Errorf("another name without resolvers: %v", got)
	}
	for name, m := range map[string]*dns.Msg{
		"NOTIMP":  {MsgHdr: dns.MsgHdr{Opcode: dns.OpcodeUpdate}, Question: []dns.Question{{Name: "cluster.local.", Qtype: dns.TypeSOA, Qclass: dns.ClassINET}}},
		"FORMERR": {},
		"REFUSED": {Question: []dns.Question{{Name: "cluster.local.", Qtype: dns.TypeTXT, Qclass: dns.ClassCHAOS}}},
	} {
		if got := dns.RcodeToString[r.server.Answer(m, true).Rcode]; got != name {
			t.Errorf("%v: %s, want %s", m, got, name)
		}
	}
	if got := r.server.Answer(&dns.Msg{MsgHdr: dns.MsgHdr{Response: true}}, true); got != nil {
		t.Errorf("an answer is answered: %v", got)
	}
}

// TestForward: names of others come from the node's resolvers; one that does
// not answer, or fails, is passed over.
func TestForward(t *testing.T) {
	r := start(t)
	var asked atomic.Int32
	r.server.upstream.port = fakeResolver(t, func(q *dns.Msg) *dns.Msg {
		m := new(dns.Msg)
		m.SetReply(q)
		if name := strings.ToLower(q.Question[0].Name); name == "www.example.test." {
			asked.Add(1)
			rr, _ := dns.NewRR("www.example.test. 300 IN A 192.0.2.1")
			m.Answer = []dns.RR{rr}
		} else {
			m.Rcode = dns.RcodeNameError
		}
		return m
	})
	far := wire.Message{Service: &wire.Service{Namespace: "default", Name: "far", Target: "www.example.test"}}
	r.node(config(resolvConf(t, "# none\nsearch a b\nnameserver 10.43.0.10\nnameserver 127.0.0.2\nnameserver 127.0.0.1\n")), far, service("web", "10.43.0.1"), synced)
	r.until("web.default.svc.cluster.local.", "10.43.0.1")
	r.until("WWW.example.test.", "192.0.2.1")
	r.until("far.default.svc.cluster.local.", "192.0.2.1")
	if asked.Load() < 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	got := r.ask("udp", "nothing.example.test.", dns.TypeA)
	for got.Rcode == dns.RcodeServerFailure && t.Context().Err() == nil { // the resolver has a second and a half
		got = r.ask("udp", "nothing.example.test.", dns.TypeA)
	}
	if got.Rcode != dns.RcodeNameError {
		t.Errorf("what a resolver denies: %v", got)
	}
}

// TestOneQuestion: many who ask the same at once cause one question.
func TestOneQuestion(t *testing.T) {
	u := newUpstream(func() {})
	release := make(chan struct{})
	var asked atomic.Int32
	u.port = fakeResolver(t, func(q *dns.Msg) *dns.Msg {
		m := new(dns.Msg)
		m.SetReply(q)
		if strings.HasPrefix(q.Question[0].Name, "slow.") {
			asked.Add(1)
			<-release
		}
		return m
	})
	u.use(resolvConf(t, "nameserver 127.0.0.1\n"))
	answers := make(chan *dns.Msg)
	const n = 20
	var begun sync.WaitGroup
	begun.Add(n)
	for i := range n {
		go func() {
			begun.Done()
			q := new(dns.Msg)
			q.SetQuestion("slow.example.test.", dns.TypeA)
			q.Id = uint16(i)
			answers <- u.ask(q, new(dns.Msg).SetReply(q), true)
		}()
	}
	begun.Wait()
	for asked.Load() == 0 {
		if t.Context().Err() != nil {
			t.Fatal("nobody was asked")
		}
	}
	close(release)
	seen := map[uint16]bool{}
	for range n {
		seen[(<-answers).Id] = true
	}
	if len(seen) != n {
		t.Errorf("%d answers of %d questions", len(seen), n)
	}
	if got := asked.Load(); got == n {
		t.Errorf("the resolver was asked %d times by %d", got, n)
	}
}

// TestLoop: a resolver that leads back is found, told, and asked no more.
func TestLoop(t *testing.T) {
	r := start(t)
	r.server.upstream.port = fakeResolver(t, func(q *dns.Msg) *dns.Msg {
		answer, _, err := new(dns.Client).Exchange(q, r.addr)
		if err != nil {
			return nil
		}
		answer.Id = q.Id
		return answer
	})
	node := r.node(config(resolvConf(t, "nameserver 127.0.0.1\n")), service("web", "10.43.0.1"), synced)
	r.until("web.default.svc.cluster.local.", "10.43.0.1")
	r.ask("udp", "www.example.test.", dns.TypeA) // ends by time, or once the loop is known
	var status wire.Status
	r.must(json.NewDecoder(node).Decode(&status))
	if want := fmt.Sprint("[127.0.0.1:", r.server.upstream.port, "]"); fmt.Sprint(status.Looping) != want {
		t.Errorf("told that %v lead back, want %s", status.Looping, want)
	}
	if got := r.ask("udp", "ftp.example.test.", dns.TypeA); got.Rcode != dns.RcodeRefused {
		t.Errorf("it is still asked: %v", got)
	}
}
