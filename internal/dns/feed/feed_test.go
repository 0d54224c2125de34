package feed_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/dns/feed"
	"github.com/setpoint-project/setpoint/internal/dns/server"
	"github.com/setpoint-project/setpoint/internal/dns/wire"
	"github.com/setpoint-project/setpoint/test/freeport"
)

// TestMain is the DNS server when the test's program is started as one.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == feed.Program {
		if err := server.Main(os.Args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type world struct {
	t    *testing.T
	dir  string
	c    client.Interface
	opts feed.Options
	feed *feed.Feed
	stop func()
}

// program puts the test's program where a DNS server's would be.
func (w *world) program(version string) {
	w.t.Helper()
	self, err := os.Executable()
	w.must(err)
	path := filepath.Join(w.dir, version, feed.Program)
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	if err := os.Symlink(self, path); err != nil && !os.IsExist(err) {
		w.t.Fatal(err)
	}
	w.opts.Program = func() (string, error) { return path, nil }
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, c: apitest.New(t, apitest.Options{}).Client("tester")}
	var err error
	w.dir, err = os.MkdirTemp("", "sp-") // a socket's path is short
	w.must(err)
	t.Cleanup(func() { os.RemoveAll(w.dir) })
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), freeport.Port(t))
	w.opts = feed.Options{Client: w.c, Node: "n1", Socket: filepath.Join(w.dir, "s"), LogFile: filepath.Join(w.dir, "log"),
		Listen: []netip.AddrPort{at, netip.AddrPortFrom(netip.IPv6Loopback(), at.Port())},
		Config: wire.Config{Domain: "cluster.local", Ranges: []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")}}}
	w.program("one")
	t.Cleanup(func() {
		if err := feed.Stop(context.Background(), w.opts.Socket); err != nil {
			t.Error(err)
		}
		if w.pid() != 0 {
			t.Error("the server is there after Stop")
		}
	})
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.feed = feed.New(w.opts)
	go func() {
		w.feed.Run(ctx)
		close(done)
	}()
	w.stop = func() { cancel(); <-done }
	w.t.Cleanup(w.stop)
}

// pid of the one server there is; 0: none.
func (w *world) pid() (found int) {
	w.t.Helper()
	entries, err := os.ReadDir("/proc")
	w.must(err)
	for _, e := range entries {
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if pid, err := strconv.Atoi(e.Name()); err == nil && strings.HasSuffix(string(args), feed.Program+"\x00"+w.opts.Socket+"\x00") {
			if found != 0 {
				w.t.Errorf("two servers: %d and %d", found, pid)
			}
			found = pid
		}
	}
	return found
}

// until asks the server, at each of its addresses, until it says what is wanted
// ("" for no such name).
func (w *world) until(name, want string) {
	w.t.Helper()
	for _, at := range w.opts.Listen {
		w.untilAt(at, name, want)
	}
}

func (w *world) untilAt(at netip.AddrPort, name, want string) {
	w.t.Helper()
	got := "nothing"
	for w.t.Context().Err() == nil {
		m := new(dns.Msg)
		m.SetQuestion(name, dns.TypeA)
		answer, err := dns.Exchange(m, at.String())
		switch {
		case err != nil || answer.Rcode == dns.RcodeServerFailure:
			pause() // the server wants the processor too
			continue
		case answer.Rcode == dns.RcodeNameError:
			got = ""
		case len(answer.Answer) > 0:
			got = strings.Fields(answer.Answer[0].String())[4]
		}
		if got == want {
			return
		}
	}
	w.t.Fatalf("at %s %s has %q, want %q; gaps: %v", at, name, got, want, w.feed.Gaps())
}

func pause() { time.Sleep(5 * time.Millisecond) }

func (w *world) create(res client.Resource, obj client.Object) {
	w.t.Helper()
	_, err := w.c.Create(context.Background(), res, obj)
	w.must(err)
}

func (w *world) external(name, target string) {
	w.create(client.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: target, SessionAffinity: corev1.ServiceAffinityNone}})
}

// TestFeed: the server follows the API, outlives the loop with what it knew,
// is taken over, mended when it dies, and replaced when it is another version or
// answers elsewhere.
func TestFeed(t *testing.T) {
	w := newWorld(t)
	w.create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	w.external("early", "a.example.test")
	w.start()
	w.until("early.default.svc.cluster.local.", "a.example.test.")
	w.external("late", "b.example.test")
	w.until("late.default.svc.cluster.local.", "b.example.test.")
	w.must(w.c.Delete(t.Context(), client.Services, "default", "late", metav1.DeleteOptions{}))
	w.until("late.default.svc.cluster.local.", "")
	for {
		node, err := client.Get[*corev1.Node](t.Context(), w.c, client.Nodes, "", "n1")
		w.must(err)
		if at := node.Annotations[feed.Annotation]; at == w.opts.Listen[0].String()+","+w.opts.Listen[1].String() {
			break
		} else if at != "" {
			t.Fatalf("the node says that its server is at %s", at)
		}
	}

	first := w.pid()
	w.stop()
	w.external("meanwhile", "c.example.test")
	w.until("early.default.svc.cluster.local.", "a.example.test.")
	w.start()
	w.until("meanwhile.default.svc.cluster.local.", "c.example.test.")
	if got := w.pid(); got != first {
		t.Errorf("the server was not taken over: process %d, then %d", first, got)
	}

	w.must(syscall.Kill(first, syscall.SIGKILL))
	w.until("early.default.svc.cluster.local.", "a.example.test.")
	second := w.pid()
	if second == first {
		t.Fatal("it answers though it was killed")
	}

	w.stop()
	w.program("two")
	w.start()
	for w.pid() == second && t.Context().Err() == nil {
		pause()
	}
	w.until("meanwhile.default.svc.cluster.local.", "c.example.test.")

	third := w.pid()
	w.stop()
	w.opts.Listen = w.opts.Listen[1:]
	w.start()
	for w.pid() == third && t.Context().Err() == nil {
	}
	w.until("meanwhile.default.svc.cluster.local.", "c.example.test.")
}

// TestTaken: an address that somebody else has is told as the gap.
func TestTaken(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", w.opts.Listen[1].String())
	w.must(err)
	w.start()
	for {
		gaps := w.feed.Gaps()
		if len(gaps) > 0 && strings.Contains(gaps[0].Reason, "address already in use") {
			break
		}
		if t.Context().Err() != nil {
			t.Fatalf("gaps: %v", gaps)
		}
	}
	l.Close()
	w.until("nothing.default.svc.cluster.local.", "")
}
