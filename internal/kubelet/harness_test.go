package kubelet_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/apiserver"
	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/apiserver/tokens"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/containerd"
	"github.com/setpoint-project/setpoint/internal/kubelet"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/test/e2e/harness"
	"github.com/setpoint-project/setpoint/test/isolated"
)

// patience bounds what should take milliseconds; it only decides how long a
// failing test takes.
const patience = 3 * time.Minute

// box is the image of most tests: a shell and the usual tools.
const box = "setpoint.test/box:1"

var pods = v1.SchemeGroupVersion.WithResource("pods")

// TestMain runs the tests in a network namespace without a way out: what pods
// send stays in it.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	isolated.Main(m.Run)
}

// rig is a node: an API server in memory, a real runtime and a kubelet.
type rig struct {
	t       testing.TB
	api     *apitest.Harness
	client  client.Interface
	opts    kubelet.Options
	rt      *cri.Client
	socket  string
	pki     *pki.Authority
	logs    string
	cgroups string

	mu   sync.Mutex
	stop func() // ends the kubelet
}

// withToken is a client whose token requests are answered as the API server
// does; what the token says does not matter here.
type withToken struct{ client.Interface }

func (c withToken) Create(ctx context.Context, res client.Resource, obj client.Object, sub ...string) (client.Object, error) {
	if r, ok := obj.(*authv1.TokenRequest); ok {
		r = r.DeepCopy()
		r.Status.Token = fmt.Sprintf("token of %s for %v", r.Name, r.Spec.Audiences)
		r.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(time.Hour))
		return r, nil
	}
	return c.Interface.Create(ctx, res, obj, sub...)
}

func newRig(t testing.TB) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it runs containers")
	}
	// Who is neither the API server nor an administrator is asked about.
	access := &tokens.Access{Authorizer: &authz.Builtin{Nodes: &authz.Nodes{PodsOn: func(string) []*v1.Pod { return nil }}}}
	r := &rig{t: t, api: apitest.New(t, apitest.Options{Namespaces: []string{"default", "kube-node-lease"},
		Subresources: map[string]apiserver.SubresourceHandler{"subjectaccessreviews.authorization.k8s.io": access.ServeSubject}})}
	r.client = withToken{r.api.Client("system:node:n1")}
	dir := t.TempDir()
	id := fmt.Sprintf("k%d-%d", os.Getpid(), time.Now().UnixNano()%100000)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	copts := containerd.Options{DataDir: dir, Instance: id, CgroupParent: "/setpoint-" + id, Grace: time.Second}
	writeCNI(t, dir)
	sup, err := containerd.New(copts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sup.Run(ctx) }()
	t.Cleanup(func() {
		r.halt()
		cancel()
		<-done
		if err := sup.Down(context.Background()); err != nil {
			t.Errorf("runtime down: %v", err)
		}
		if err := volume.Release(r.opts.RootDir); err != nil {
			t.Errorf("volumes: %v", err)
		}
	})
	select {
	case <-sup.Ready():
	case err := <-done:
		t.Fatalf("runtime: %v", err)
	case <-time.After(patience):
		t.Fatal("the runtime is not ready")
	}
	r.socket = containerd.Socket(id)
	archive, err := os.Open(harness.Archive(t, box, harness.Busybox(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if _, err := containerd.ImportImage(ctx, r.socket, archive); err != nil {
		t.Fatal(err)
	}
	if r.rt, err = cri.Dial(sup.Endpoint(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.rt.Close() })
	if r.pki, err = pki.Open(filepath.Join(dir, "pki")); err != nil {
		t.Fatal(err)
	}
	serving, err := pki.NewRotating(func() (*pki.Pair, error) { return r.pki.KubeletServing("n1", nil) })
	if err != nil {
		t.Fatal(err)
	}
	r.logs = filepath.Join(dir, "logs", "pods")
	r.cgroups = copts.CgroupParent
	r.opts = kubelet.Options{
		NodeName: "n1", Client: r.client, RuntimeEndpoint: sup.Endpoint(), RootDir: filepath.Join(dir, "kubelet"), PodLogsDir: r.logs,
		NodeIPs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}, ServingTLS: serving.GetCertificate, ClientCA: r.pki.Pool(),
		CgroupParent: copts.CgroupParent, Logger: log,
	}
	r.start()
	return r
}

func writeCNI(t testing.TB, data string) {
	t.Helper()
	dir := filepath.Join(data, "cni", "net.d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
		"type": "bridge", "bridge": "k%d", "isGateway": true, "hairpinMode": true,
		"ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.198.0.0/24"}]]}
	}]}`, os.Getpid()%100000, filepath.Join(data, "cni", "ipam"))
	if err := os.WriteFile(filepath.Join(dir, "10-pods.conflist"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start starts the kubelet.
func (r *rig) start() {
	r.t.Helper()
	k, err := kubelet.New(r.opts)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := k.Run(ctx); err != nil && ctx.Err() == nil {
			r.t.Errorf("kubelet: %v", err)
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop = func() { cancel(); <-done }
}

// halt stops the kubelet; containers run on.
func (r *rig) halt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
}

// pod files a pod, given as YAML from "spec" on.
func (r *rig) pod(name, spec string) *v1.Pod {
	r.t.Helper()
	p := &v1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(spec, "\t", "  ")), p); err != nil {
		r.t.Fatalf("pod %s: %v", name, err)
	}
	p.Name, p.Namespace, p.Spec.NodeName = name, "default", "n1"
	o, err := r.client.Create(context.Background(), pods, p)
	if err != nil {
		r.t.Fatalf("pod %s: %v", name, err)
	}
	return o.(*v1.Pod)
}

// get is the pod as the API server shows it, or nil.
func (r *rig) get(name string) *v1.Pod {
	o, err := r.client.Get(context.Background(), pods, "default", name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		r.t.Fatal(err)
	}
	return o.(*v1.Pod)
}

// await waits until the pod is as ok says; nil when it is gone.
func (r *rig) await(name, what string, ok func(*v1.Pod) bool) *v1.Pod {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w, err := r.client.Watch(ctx, pods, "default", metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		r.t.Fatal(err)
	}
	defer w.Stop()
	for {
		p := r.get(name)
		if ok(p) {
			return p
		}
		select {
		case <-w.ResultChan():
		case <-ctx.Done():
			text := "gone"
			if p != nil {
				b, _ := yaml.Marshal(p.Status)
				text = string(b)
			}
			r.t.Fatalf("pod %s did not become %s:\n%s\nevents:\n%s", name, what, text, strings.Join(r.events(name), "\n"))
		}
	}
}

// events of a pod, "reason: message".
func (r *rig) events(name string) []string {
	list, _, err := r.client.List(context.Background(), v1.SchemeGroupVersion.WithResource("events"), "default", metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, o := range list {
		if e := o.(*v1.Event); e.InvolvedObject.Name == name {
			out = append(out, fmt.Sprintf("%s: %s", e.Reason, e.Message))
		}
	}
	return out
}

func (r *rig) delete(name string, grace *int64) {
	r.t.Helper()
	if err := r.client.Delete(context.Background(), pods, "default", name, metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		r.t.Fatal(err)
	}
}

func ready(p *v1.Pod) bool { return p != nil && condition(p, v1.PodReady) == v1.ConditionTrue }

func condition(p *v1.Pod, t v1.PodConditionType) v1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return v1.ConditionUnknown
}

func phase(want v1.PodPhase) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool { return p != nil && p.Status.Phase == want }
}

func gone(p *v1.Pod) bool { return p == nil }

// logged waits until a container wrote text.
func (r *rig) logged(p *v1.Pod, container string, n int, text string) {
	r.t.Helper()
	r.wait(fmt.Sprintf("%s/%s writes %q", p.Name, container, text), func() bool { return strings.Contains(r.log(p, container, n), text) })
}

// wait looks until ok says so.
func (r *rig) wait(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not true after %v: %s", patience, what)
		}
	}
}

// in is the rig for a subtest.
func (r *rig) in(t testing.TB) *rig {
	return &rig{t: t, api: r.api, client: r.client, opts: r.opts, rt: r.rt, socket: r.socket, pki: r.pki, logs: r.logs, cgroups: r.cgroups}
}

// log is what a container wrote.
func (r *rig) log(p *v1.Pod, container string, n int) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.logs, p.Namespace+"_"+p.Name+"_"+string(p.UID), container, fmt.Sprintf("%d.log", n)))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		if f := strings.SplitN(line, " ", 4); len(f) == 4 {
			out.WriteString(f[3])
		}
	}
	return out.String()
}
