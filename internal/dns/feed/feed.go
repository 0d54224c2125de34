// Package feed is the loop that gives a node its DNS server: it starts the
// server's process, or takes over the one that runs, and tells it the names
// that Services, EndpointSlices and Namespaces make (see packages wire, zone).
//
// Once the server has been told, the loop says on the Node where it listens
// (Annotation), and the loop clusterdns makes that an endpoint of the service
// kube-dns.
//
// The process lives on when Setpoint ends, by whatever signal, and answers
// with what it knew last. It ends with `setpoint down`. One of another version
// is replaced.
//
// Cost: a change is told when it changes a name: an endpoint of a service with
// a cluster IP does not.
package feed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/dns/wire"
	"github.com/setpoint-project/setpoint/loop"
)

// Annotation on a Node says where its DNS server listens, with a comma between
// addresses: "10.42.0.1:10053,[fd00:42::1]:10053".
const Annotation = "setpoint.dev/dns"

// Port is where a node's server listens, on the node's bridge. It is not 53: a
// resolver of the machine's own may have that on every address, and a pod may
// want it as its host port. Pods do not see it: the service is at 53.
const Port = 10053

// Options of the loop.
type Options struct {
	Client client.Interface
	Node   string
	// Program finds the server's program, whose file is named as Program is.
	Program func() (string, error)
	// Socket is the path of the Unix socket between node and server; LogFile
	// gets what the server says last.
	Socket, LogFile string
	// Listen is where the server answers: one address of each family, as a rule.
	Listen []netip.AddrPort
	Config wire.Config
	// Apart, when not nil, keeps a process from ending with ours.
	Apart  func(pid int)
	Logger *slog.Logger
}

// Feed is the loop.
type Feed struct {
	opts                               Options
	services, slices, namespaces, node client.View
	loop                               *loop.Loop

	// Of the loop's one worker:
	link *link // nil: no server
	told map[loop.Key]uint64
	seed maphash.Seed
}

// link is a connection to a server.
type link struct {
	conn  net.Conn
	in    *json.Decoder
	out   *bufio.Writer
	since time.Time

	mu struct {
		sync.Mutex
		status wire.Status
		broken error // why nothing more is heard
	}
}

// serverKey is that of the server itself. A service's names it; a namespace's
// has a name only.
var serverKey = loop.Key{}

const byService = "service"

// New makes the loop; Run turns it.
func New(o Options) *Feed {
	f := &Feed{opts: o, told: map[loop.Key]uint64{}, seed: maphash.MakeSeed(),
		services:   o.Client.View(client.Services, client.ViewOptions{}),
		slices:     o.Client.View(client.EndpointSlices, client.ViewOptions{}),
		namespaces: o.Client.View(client.Namespaces, client.ViewOptions{}),
		node:       o.Client.View(client.Nodes, client.ViewOptions{FieldSelector: "metadata.name=" + o.Node}),
	}
	f.slices.Index(byService, func(o client.Object) []string {
		if svc := o.GetLabels()[discoveryv1.LabelServiceName]; svc != "" {
			return []string{o.GetNamespace() + "/" + svc}
		}
		return nil
	})
	// One worker: the server has one node.
	f.loop = loop.New(loop.Options{Name: "dns", Reconcile: f.reconcile, Workers: 1, MaxBackoff: 30 * time.Second, Logger: o.Logger})
	return f
}

func (f *Feed) Name() string     { return f.loop.Name() }
func (f *Feed) Gaps() []loop.Gap { return f.loop.Gaps() }

// Run turns the loop until ctx ends; the server lives on.
func (f *Feed) Run(ctx context.Context) error {
	for _, v := range []client.View{f.services, f.slices, f.namespaces, f.node} {
		if err := v.WaitSynced(ctx); err != nil {
			f.loop.Stop()
			return err
		}
	}
	f.loop.Look(serverKey)
	defer f.services.Handle(func(old, new client.Object) { f.look(old, new) })()
	defer f.namespaces.Handle(func(old, new client.Object) {
		if old == nil || new == nil {
			f.look(old, new)
		}
	})()
	defer f.node.Handle(func(old, new client.Object) {
		if new != nil && (old == nil || old.GetAnnotations()[Annotation] != new.GetAnnotations()[Annotation]) {
			f.loop.Look(serverKey)
		}
	})()
	defer f.slices.Handle(func(old, new client.Object) {
		for _, o := range []client.Object{old, new} {
			if o == nil {
				continue
			}
			key := loop.Key{Namespace: o.GetNamespace(), Name: o.GetLabels()[discoveryv1.LabelServiceName]}
			if svc := client.In[*corev1.Service](f.services, key.Namespace, key.Name); svc != nil && svc.Spec.ClusterIP == corev1.ClusterIPNone {
				f.loop.Look(key)
			}
		}
	})()
	err := f.loop.Run(ctx)
	if f.link != nil {
		f.link.conn.Close()
	}
	return err
}

func (f *Feed) look(old, new client.Object) {
	if new == nil {
		new = old
	}
	f.loop.Look(loop.Key{Namespace: new.GetNamespace(), Name: new.GetName()})
}

func (f *Feed) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if key == serverKey {
		return f.serve(ctx)
	}
	if f.link == nil {
		return loop.Done(), nil // it will be part of the picture
	}
	m := f.message(key)
	if m == nil {
		return loop.Done(), nil
	}
	if err := f.link.say(*m, true); err != nil {
		f.loop.Look(serverKey)
	}
	return loop.Done(), nil
}

// message is what the server is still to be told about a service or a
// namespace; nil: nothing.
func (f *Feed) message(key loop.Key) *wire.Message {
	var m wire.Message
	there := false
	if key.Namespace == "" {
		if there = f.namespaces.Get("", key.Name) != nil; there {
			m.Namespace = key.Name
		} else {
			m.NoMore = key.Name
		}
	} else {
		m.Gone = key.String()
		if svc := client.In[*corev1.Service](f.services, key.Namespace, key.Name); svc != nil {
			if s := plan(svc, client.Indexed[*discoveryv1.EndpointSlice](f.slices, byService, key.String())); s != nil {
				m, there = wire.Message{Service: s}, true
			}
		}
	}
	had, known := f.told[key]
	if !there {
		if !known {
			return nil
		}
		delete(f.told, key)
		return &m
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil // strings and numbers always marshal
	}
	if sum := maphash.Bytes(f.seed, text); !known || sum != had {
		f.told[key] = sum
		return &m
	}
	return nil
}

// serve sees to the server's process, and says on the Node that it is there.
func (f *Feed) serve(ctx context.Context) (loop.Outcome, error) {
	if f.link != nil {
		if err := f.link.brokenBy(); err != nil {
			f.link.conn.Close()
			young := time.Since(f.link.since) < patience
			f.link = nil
			if young {
				return loop.Outcome{}, fmt.Errorf("the DNS server ended soon after it was started: %w; see %s", err, f.opts.LogFile)
			}
		}
	}
	if f.link == nil {
		if err := f.connect(ctx); err != nil {
			return loop.Outcome{}, err
		}
	}
	node := client.In[*corev1.Node](f.node, "", f.opts.Node)
	if node == nil {
		return loop.WaitFor("Node "+f.opts.Node, "it is not there yet"), nil
	}
	if at := format(f.opts.Listen); node.Annotations[Annotation] != at {
		if err := annotate(ctx, f.opts.Client, f.opts.Node, at); err != nil {
			return loop.Outcome{}, fmt.Errorf("say on the node where its DNS server is: %w", err)
		}
	}
	if looping := f.link.status().Looping; len(looping) > 0 {
		return loop.WaitFor("resolver "+strings.Join(looping, ", "), "named in %s, it leads back to the cluster's DNS server: it is not asked for other names", f.opts.Config.ResolvConf), nil
	}
	return loop.Done(), nil
}

// format is the annotation's value.
func format(at []netip.AddrPort) string {
	list := make([]string, len(at))
	for i, a := range at {
		list[i] = a.String()
	}
	return strings.Join(list, ",")
}

// Parse reads the annotation's value. What cannot be read of it is left out.
func Parse(value string) (at []netip.AddrPort) {
	for one := range strings.SplitSeq(value, ",") {
		if a, err := netip.ParseAddrPort(one); err == nil {
			at = append(at, a)
		}
	}
	return at
}

func annotate(ctx context.Context, c client.Interface, node, at string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{Annotation: at}}})
	if err != nil {
		return err
	}
	_, err = c.Patch(ctx, client.Nodes, "", node, types.MergePatchType, patch)
	return err
}

// connect takes over the server that runs, or starts one, and tells it all.
func (f *Feed) connect(ctx context.Context) error {
	program, err := f.opts.Program()
	if err != nil {
		return err
	}
	list, err := running(f.opts.Socket)
	if err != nil {
		return err
	}
	var l *link
	for _, p := range list {
		if l == nil && p.program == program {
			if l, err = f.greet(ctx); err == nil && slices.Equal(l.status().At, f.opts.Listen) {
				continue
			}
			if err == nil {
				l.conn.Close()
				l = nil
			}
		}
		if err := end(ctx, p.pid, f.opts.Socket); err != nil {
			return err
		}
	}
	if l == nil {
		p, err := launch(program, f.opts.Socket, f.opts.LogFile, f.opts.Listen)
		if err != nil {
			return err
		}
		go p.Wait() // ours to bury as long as we live
		if f.opts.Apart != nil {
			f.opts.Apart(p.Pid)
		}
		if l, err = f.greet(ctx); err != nil {
			words, _ := os.ReadFile(f.opts.LogFile)
			return fmt.Errorf("the DNS server does not start: %w: %s", err, strings.TrimSpace(string(words)))
		}
	}
	if err := f.tellAll(l); err != nil {
		l.conn.Close()
		return fmt.Errorf("tell the DNS server the names: %w", err)
	}
	f.link = l
	go l.listen(func() { f.loop.Look(serverKey) })
	return nil
}

// greet connects to a server and hears who it is.
func (f *Feed) greet(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", f.opts.Socket)
	if err != nil {
		return nil, err
	}
	conn.SetReadDeadline(time.Now().Add(patience))
	l := &link{conn: conn, in: json.NewDecoder(conn), out: bufio.NewWriter(conn), since: time.Now()}
	if err := l.in.Decode(&l.mu.status); err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetReadDeadline(time.Time{})
	return l, nil
}

// tellAll tells a server the whole picture.
func (f *Feed) tellAll(l *link) error {
	clear(f.told)
	if err := l.say(wire.Message{Config: &f.opts.Config}, false); err != nil {
		return err
	}
	for _, view := range []client.View{f.namespaces, f.services} {
		for _, o := range view.List("") {
			if m := f.message(loop.Key{Namespace: o.GetNamespace(), Name: o.GetName()}); m != nil {
				if err := l.say(*m, false); err != nil {
					return err
				}
			}
		}
	}
	return l.say(wire.Message{Synced: true}, true)
}

// say tells the server; at once with flush.
func (l *link) say(m wire.Message, flush bool) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	l.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err = l.out.Write(append(text, '\n'))
	if err == nil && flush {
		err = l.out.Flush()
	}
	if err != nil {
		l.breakOff(err)
	}
	return err
}

// listen hears what the server says until the connection ends.
func (l *link) listen(changed func()) {
	for {
		var s wire.Status
		if err := l.in.Decode(&s); err != nil {
			l.breakOff(err)
			changed()
			return
		}
		l.mu.Lock()
		l.mu.status = s
		l.mu.Unlock()
		changed()
	}
}

func (l *link) status() wire.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.status
}

func (l *link) breakOff(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.broken = errors.Join(l.mu.broken, err)
}

func (l *link) brokenBy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.broken
}
