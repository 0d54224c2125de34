package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/plugin"
)

// driver is a plugin: a server at a socket.
type driver struct {
	registerapi.UnimplementedRegistrationServer
	info *registerapi.PluginInfo
	stop func() // takes the socket away
	told chan *registerapi.RegistrationStatus
}

func (d *driver) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return d.info, nil
}

func (d *driver) NotifyRegistrationStatus(ctx context.Context, st *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	select {
	case d.told <- st:
	default: // nobody in this test asks
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// serve starts a plugin at a path.
func serve(t testing.TB, path string, info *registerapi.PluginInfo) *driver {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	d := &driver{info: info, told: make(chan *registerapi.RegistrationStatus, 16)}
	d.stop = func() {
		server.Stop()
		l.Close() // where the server did not come to know it
	}
	registerapi.RegisterRegistrationServer(server, d)
	go server.Serve(l)
	t.Cleanup(d.stop)
	return d
}

// node is a handler that keeps what it is told.
type node struct {
	t   testing.TB
	dir string

	mu      sync.Mutex
	now     map[string]plugin.Plugin // guarded by mu; by socket
	calls   []string                 // guarded by mu
	refuse  func(p plugin.Plugin) error
	changed chan struct{}
}

func (n *node) tell(call string) {
	n.calls = append(n.calls, call)
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *node) Register(_ context.Context, p plugin.Plugin) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tell("+" + p.Name)
	if n.refuse != nil {
		if err := n.refuse(p); err != nil {
			return err
		}
	}
	n.now[p.Socket] = p
	return nil
}

func (n *node) Deregister(p plugin.Plugin) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tell("-" + p.Name)
	delete(n.now, p.Socket)
}

// await waits until ok says so of what the handler knows.
func (n *node) await(what string, ok func() bool) {
	n.t.Helper()
	end := time.After(time.Minute) // only decides how long a failing test takes
	for {
		n.mu.Lock()
		done, calls := ok(), slices.Clone(n.calls)
		n.mu.Unlock()
		if done {
			return
		}
		select {
		case <-n.changed:
		case <-end:
			n.t.Fatalf("not true: %s; the handler was called: %q", what, calls)
		}
	}
}

func (n *node) names() []string {
	var out []string
	for _, p := range n.now {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

func (n *node) awaitNames(want ...string) {
	n.t.Helper()
	n.await(fmt.Sprintf("the plugins are %q", want), func() bool { return slices.Equal(n.names(), want) })
}

// short is a folder with a path that leaves room for the names of sockets,
// which the kernel bounds.
func short(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "plug")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newNode(t testing.TB) *node {
	return &node{t: t, dir: filepath.Join(short(t), "r"), now: map[string]plugin.Plugin{}, changed: make(chan struct{}, 1)}
}

// run runs a watcher until the function it returns is called.
func (n *node) run() (stop func()) {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	w := plugin.New(plugin.Options{Dir: n.dir, Handlers: map[string]plugin.Handler{plugin.DRA: n, plugin.CSI: n}})
	go func() { done <- w.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Error(err)
		}
	})
}

func dra(name string) *registerapi.PluginInfo {
	return &registerapi.PluginInfo{Type: plugin.DRA, Name: name, SupportedVersions: []string{"v1.DRAPlugin"}}
}

func TestRegister(t *testing.T) {
	n := newNode(t)
	before := serve(t, filepath.Join(mkdir(t, n.dir), "before.sock"), dra("before"))
	defer n.run()()
	after := serve(t, filepath.Join(n.dir, "after.sock"), &registerapi.PluginInfo{
		Type: plugin.CSI, Name: "after", Endpoint: "/somewhere/csi.sock", SupportedVersions: []string{"1.0.0"}})
	n.awaitNames("after", "before")
	for _, d := range []*driver{before, after} {
		if st := <-d.told; !st.PluginRegistered || st.Error != "" {
			t.Errorf("%s was told %v", d.info.Name, st)
		}
	}
	n.mu.Lock()
	got := n.now[filepath.Join(n.dir, "before.sock")]
	csi := n.now[filepath.Join(n.dir, "after.sock")]
	n.mu.Unlock()
	if got.Endpoint != got.Socket || got.Type != plugin.DRA || !slices.Equal(got.Versions, []string{"v1.DRAPlugin"}) {
		t.Errorf("the plugin is %+v", got)
	}
	if csi.Endpoint != "/somewhere/csi.sock" {
		t.Errorf("the plugin with an endpoint of its own is %+v", csi)
	}
}

func mkdir(t testing.TB, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A plugin is told why it is not taken, and taken when the reason is gone.
func TestRefused(t *testing.T) {
	n := newNode(t)
	tries := 0
	n.refuse = func(plugin.Plugin) error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	}
	defer n.run()()
	d := serve(t, filepath.Join(n.dir, "a.sock"), dra("a"))
	for range 2 {
		if st := <-d.told; st.PluginRegistered || !strings.HasSuffix(st.Error, "not yet") {
			t.Errorf("the plugin was told %v", st)
		}
	}
	if st := <-d.told; !st.PluginRegistered {
		t.Errorf("the plugin was told %v at last", st)
	}
	strange := serve(t, filepath.Join(n.dir, "b.sock"), &registerapi.PluginInfo{Type: "Toaster", Name: "b"})
	if st := <-strange.told; st.PluginRegistered || !strings.Contains(st.Error, `"Toaster"`) {
		t.Errorf("a plugin of no known type was told %v", st)
	}
	nameless := serve(t, filepath.Join(n.dir, "c.sock"), dra(""))
	if st := <-nameless.told; st.PluginRegistered || !strings.Contains(st.Error, "no name") {
		t.Errorf("a plugin without a name was told %v", st)
	}
}

// A plugin that comes back at the same path is first gone, then there anew; one
// in a folder that is taken away and made again is found again.
func TestGoneAndBack(t *testing.T) {
	n := newNode(t)
	defer n.run()()
	sub := filepath.Join(n.dir, "sub")
	path := filepath.Join(mkdir(t, sub), "a.sock")
	for i := range 3 {
		d := serve(t, path, dra(fmt.Sprintf("a%d", i)))
		n.awaitNames(fmt.Sprintf("a%d", i))
		d.stop()
	}
	n.awaitNames()
	n.mu.Lock()
	calls := slices.Clone(n.calls)
	n.mu.Unlock()
	if want := []string{"+a0", "-a0", "+a1", "-a1", "+a2", "-a2"}; !slices.Equal(calls, want) {
		t.Errorf("the handler was called %q, want %q", calls, want)
	}
	if err := os.RemoveAll(n.dir); err != nil {
		t.Fatal(err)
	}
	serve(t, filepath.Join(mkdir(t, sub), "b.sock"), dra("b"))
	n.awaitNames("b")
	serve(t, filepath.Join(n.dir, ".half.sock"), dra("half"))
	serve(t, filepath.Join(n.dir, "c.sock"), dra("c"))
	n.awaitNames("b", "c")
}

// Whatever happens to the sockets, and however often the watcher is killed, in
// the end the handler knows just those that are there.
func TestConverge(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	n := newNode(t)
	n.refuse = func(plugin.Plugin) error { // called with mu held
		if rnd.IntN(8) == 0 {
			return errors.New("a bad day")
		}
		return nil
	}
	stop := n.run()
	there := map[string]*driver{}
	for i := range 60 {
		path := filepath.Join(n.dir, []string{"", "x", "x/y"}[draw(n, rnd, 3)], fmt.Sprintf("%d.sock", draw(n, rnd, 3)))
		switch draw(n, rnd, 8) {
		case 0:
			stop()
			n.mu.Lock()
			clear(n.now) // a new kubelet knows nothing
			n.mu.Unlock()
			stop = n.run()
		case 1, 2:
			if d := there[path]; d != nil {
				d.stop()
				delete(there, path)
			}
		default:
			if d := there[path]; d != nil {
				d.stop()
			}
			mkdir(t, filepath.Dir(path))
			there[path] = serve(t, path, dra(fmt.Sprintf("p%d", i)))
		}
	}
	want := map[string]string{}
	for path, d := range there {
		want[path] = d.info.Name
	}
	n.await(fmt.Sprintf("the plugins are %v", want), func() bool {
		have := map[string]string{}
		for path, p := range n.now {
			have[path] = p.Name
		}
		return maps.Equal(have, want)
	})
	stop()
}

// draw draws under the lock that refuse draws under.
func draw(n *node, r *rand.Rand, max int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return r.IntN(max)
}
