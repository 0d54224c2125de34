package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// tryTime is what one resolver gets. Those who ask wait five seconds.
	tryTime = 1500 * time.Millisecond
	// maxResolvers is what C libraries take from resolv.conf.
	maxResolvers = 3
	// maxFlying bounds the questions that are being asked at once.
	maxFlying = 1000
	// fresh is how long the list of resolvers is good without another look at
	// the file's date. Nobody looks where nobody asks.
	fresh = 5 * time.Second
	// probeSuffix ends the names by which resolvers that lead back are found.
	// It is nobody's: "test" is reserved (RFC 6761).
	probeSuffix = ".loop-check.setpoint.test."
)

// upstream asks the node's resolvers.
type upstream struct {
	changed func() // called when a resolver turns out to lead back
	port    uint16 // of resolvers

	mu struct {
		sync.Mutex
		path      string
		own       []netip.Addr // addresses that are this very server
		looked    time.Time
		modified  time.Time
		resolvers []resolver
		good      int // the resolver that answered last
		flying    map[flight]*call
	}
}

type resolver struct {
	addr    netip.AddrPort
	token   string // a label of ours; who sees it come back is asked by this resolver
	looping bool
}

// flight is a question being asked, as it is told from others.
type flight struct {
	name           string
	qtype, qclass  uint16
	udp, dnssec    bool
	recurse, check bool
}

// call is what those who asked the same wait for.
type call struct {
	done   chan struct{}
	answer *dns.Msg // nil: nobody answered
}

func newUpstream(changed func()) *upstream {
	u := &upstream{changed: changed, port: 53}
	u.mu.flying = map[flight]*call{}
	return u
}

// use takes the resolvers from another file, own left out.
func (u *upstream) use(path string, own ...netip.Addr) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.path, u.mu.own, u.mu.looked, u.mu.modified, u.mu.resolvers = path, own, time.Time{}, time.Time{}, nil
}

// ask returns what a resolver says to r, or m with an error.
func (u *upstream) ask(r, m *dns.Msg, udp bool) *dns.Msg {
	q := r.Question[0]
	opt := r.IsEdns0()
	key := flight{strings.ToLower(q.Name), q.Qtype, q.Qclass, udp, opt != nil && opt.Do(), r.RecursionDesired, r.CheckingDisabled}
	u.mu.Lock()
	servers := u.serversLocked()
	if len(servers) == 0 {
		u.mu.Unlock()
		m.Rcode = dns.RcodeRefused
		return m
	}
	c := u.mu.flying[key]
	if c == nil && len(u.mu.flying) < maxFlying {
		c = &call{done: make(chan struct{})}
		u.mu.flying[key] = c
		go u.fly(key, c, r.Copy(), servers, udp)
	}
	u.mu.Unlock()
	if c == nil {
		m.Rcode = dns.RcodeServerFailure
		return m
	}
	<-c.done
	if c.answer == nil {
		m.Rcode = dns.RcodeServerFailure
		return m
	}
	answer := c.answer.Copy()
	answer.Id, answer.Question = r.Id, r.Question
	for _, rr := range answer.Answer { // others may have spelled it otherwise
		if h := rr.Header(); sameName(h.Name, q.Name) {
			h.Name = q.Name
		}
	}
	return answer
}

// fly asks one resolver after the other.
func (u *upstream) fly(key flight, c *call, r *dns.Msg, servers []int, udp bool) {
	ctx, cancel := context.WithTimeout(context.Background(), questionTime)
	defer cancel()
	for _, i := range servers {
		u.mu.Lock()
		var addr netip.AddrPort
		if i < len(u.mu.resolvers) {
			addr = u.mu.resolvers[i].addr
		}
		u.mu.Unlock()
		if !addr.IsValid() {
			continue
		}
		answer, err := exchange(ctx, r, addr, udp)
		if err == nil && answer.Rcode != dns.RcodeServerFailure && answer.Rcode != dns.RcodeRefused {
			c.answer = answer
			u.mu.Lock()
			u.mu.good = i
			u.mu.Unlock()
			break
		}
		if err == nil && c.answer == nil {
			c.answer = answer // if nobody has a better one
		}
	}
	u.mu.Lock()
	delete(u.mu.flying, key)
	u.mu.Unlock()
	close(c.done)
}

// exchange asks over a socket of its own, whose number nobody knows.
func exchange(ctx context.Context, r *dns.Msg, addr netip.AddrPort, udp bool) (*dns.Msg, error) {
	network := "tcp"
	if udp {
		network = "udp"
	}
	q := r.Copy()
	q.Id = dns.Id()
	client := dns.Client{Net: network, Timeout: tryTime, UDPSize: udpSize}
	answer, _, err := client.ExchangeContext(ctx, q, addr.String())
	if err != nil {
		return nil, err
	}
	if len(answer.Question) != 1 || !sameName(answer.Question[0].Name, q.Question[0].Name) || answer.Question[0].Qtype != q.Question[0].Qtype {
		return nil, fmt.Errorf("%s answers another question", addr)
	}
	return answer, nil
}

// serversLocked are the resolvers to ask, the best first.
func (u *upstream) serversLocked() []int {
	u.readLocked()
	var list []int
	for i := range u.mu.resolvers {
		if k := (u.mu.good + i) % len(u.mu.resolvers); !u.mu.resolvers[k].looping {
			list = append(list, k)
		}
	}
	return list
}

// readLocked reads the resolvers anew when their file has changed.
func (u *upstream) readLocked() {
	if u.mu.path == "" || time.Since(u.mu.looked) < fresh {
		return
	}
	u.mu.looked = time.Now()
	info, err := os.Stat(u.mu.path)
	if err != nil || info.ModTime().Equal(u.mu.modified) {
		return // while the file is being replaced, what it said holds
	}
	text, err := os.ReadFile(u.mu.path)
	if err != nil {
		return
	}
	u.mu.modified, u.mu.good, u.mu.resolvers = info.ModTime(), 0, nil
	for _, addr := range nameservers(string(text)) {
		if len(u.mu.resolvers) == maxResolvers || slices.Contains(u.mu.own, addr) {
			continue
		}
		one := resolver{addr: netip.AddrPortFrom(addr, u.port), token: strings.ToLower(rand.Text())}
		u.mu.resolvers = append(u.mu.resolvers, one)
		go probe(one)
	}
}

// nameservers reads the addresses in the text of a resolv.conf.
func nameservers(text string) (list []netip.Addr) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		if addr, err := netip.ParseAddr(f[1]); err == nil {
			list = append(list, addr.Unmap())
		}
	}
	return list
}

// probe asks a resolver for a name of ours: it must not come back.
func probe(r resolver) {
	ctx, cancel := context.WithTimeout(context.Background(), questionTime)
	defer cancel()
	m := new(dns.Msg)
	m.SetQuestion(r.token+probeSuffix, dns.TypeHINFO)
	_, _ = exchange(ctx, m, r.addr, true)
}

// cameBack notes a resolver that has led a probe back to this server.
func (u *upstream) cameBack(name string) bool {
	token, ok := strings.CutSuffix(strings.ToLower(name), probeSuffix)
	if !ok {
		return false
	}
	u.mu.Lock()
	i := slices.IndexFunc(u.mu.resolvers, func(r resolver) bool { return r.token == token })
	found := i >= 0 && !u.mu.resolvers[i].looping
	if found {
		u.mu.resolvers[i].looping = true
	}
	u.mu.Unlock()
	if found {
		u.changed()
	}
	return true
}

// looping lists the resolvers that lead back.
func (u *upstream) looping() (list []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.mu.resolvers {
		if r.looping {
			list = append(list, net.JoinHostPort(r.addr.Addr().String(), strconv.Itoa(int(r.addr.Port()))))
		}
	}
	return list
}
