// Package kubelet is the hands of a node: it makes the containers of the pods
// bound to it true, through any runtime that speaks CRI v1.
//
//	view of pods ---+
//	CRI events, ----+--> one pod.Worker per pod --> CRI, volumes, status
//	   relist       |
//	objects, probes-+                              |
//	                         plugin.Watcher --> csi, dra --> drivers of storage and devices
//	node.Reporter --> Node, Lease
//	server        --> logs, exec, attach, port-forward for the API server
//
// Use: New, then Run until the context ends. Stopping leaves containers
// running; the next kubelet with the same Owner takes them over by their
// labels.
//
// Concurrency: Run starts everything and returns when everything has ended.
//
// Failure: with the API server away, containers are kept as last seen; with
// the runtime away, pods wait and the node turns NotReady.
package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/cgroup"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/csi"
	"github.com/setpoint-project/setpoint/internal/kubelet/dra"
	"github.com/setpoint-project/setpoint/internal/kubelet/env"
	"github.com/setpoint-project/setpoint/internal/kubelet/event"
	"github.com/setpoint-project/setpoint/internal/kubelet/image"
	"github.com/setpoint-project/setpoint/internal/kubelet/node"
	"github.com/setpoint-project/setpoint/internal/kubelet/object"
	"github.com/setpoint-project/setpoint/internal/kubelet/pod"
	"github.com/setpoint-project/setpoint/internal/kubelet/podcertificate"
	"github.com/setpoint-project/setpoint/internal/kubelet/server"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/loop"
)

// Options of a Kubelet.
type Options struct {
	NodeName string
	Client   client.Interface // with the identity system:node:NodeName

	RuntimeEndpoint string // unix socket of the runtime
	ImageEndpoint   string // empty: the same
	// Runtime, when not nil, is used instead of the endpoints.
	Runtime cri.Runtime

	RootDir    string // volumes and the like
	PodLogsDir string // empty: /var/log/pods

	// NodeIPs are the node's addresses: one, or one of each family, that of the
	// cluster's primary family first. Required.
	NodeIPs []netip.Addr
	// Port of the server; 0: 10250.
	Port int
	// ServingTLS gives the server's certificate; nil: no server.
	ServingTLS func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	ClientCA   *x509.CertPool // who may ask the server
	// Clients are the common names the server answers; empty means the API
	// server's kubelet client and members of system:masters.
	Clients []string

	ClusterDomain string   // empty: cluster.local
	ClusterDNS    []string // servers for pods; empty: the node's own
	ResolvConf    string   // empty: /etc/resolv.conf
	MaxPods       int      // 0: 110
	CgroupParent  string   // "/setpoint-x"; empty: "/"
	// Owner marks this kubelet's containers in the runtime; empty: the node's
	// name and the cgroup parent.
	Owner string

	Labels             map[string]string // further labels of the node
	RegisterWithTaints []v1.Taint

	Logger *slog.Logger // nil: no log
	// Ready, when not nil, is closed when the runtime may be asked; until then
	// its absence is no news.
	Ready <-chan struct{}
	// Observer, when not nil, is told each outcome. It must be quick.
	Observer func(key loop.Key, o loop.Outcome, err error, took time.Duration)
}

// Validate says what is missing.
func (o *Options) Validate() error {
	switch {
	case o.NodeName == "":
		return fmt.Errorf("kubelet: NodeName is empty")
	case o.Client == nil:
		return fmt.Errorf("kubelet: Client is nil")
	case o.RuntimeEndpoint == "" && o.Runtime == nil:
		return fmt.Errorf("kubelet: RuntimeEndpoint is empty")
	case o.RootDir == "":
		return fmt.Errorf("kubelet: RootDir is empty")
	case len(o.NodeIPs) == 0 || slices.ContainsFunc(o.NodeIPs, func(ip netip.Addr) bool { return !ip.IsValid() }):
		return fmt.Errorf("kubelet: NodeIPs are not set")
	case o.ServingTLS != nil && o.ClientCA == nil:
		return fmt.Errorf("kubelet: ServingTLS is given without ClientCA")
	}
	return nil
}

func (o *Options) defaults() {
	if o.PodLogsDir == "" {
		o.PodLogsDir = "/var/log/pods"
	}
	if o.ClusterDomain == "" {
		o.ClusterDomain = "cluster.local"
	}
	if o.ResolvConf == "" {
		o.ResolvConf = "/etc/resolv.conf"
	}
	if o.Port == 0 {
		o.Port = 10250
	}
	if o.MaxPods == 0 {
		o.MaxPods = 110
	}
	if o.Owner == "" {
		o.Owner = o.NodeName + o.CgroupParent
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Kubelet looks after one node.
type Kubelet struct {
	opts    Options
	rt      cri.Runtime
	close   func() error
	events  *event.Recorder
	objects *object.Cache
	volumes *volume.Manager
	// certificates of pods, in their volumes.
	certificates *podcertificate.Manager
	csi          *csi.Manager
	devices      *dra.Manager
	cgroups      *cgroup.Tree
	pods         client.View
	// services are what containers find as variables.
	services  client.View
	node      *node.Reporter
	deps      *pod.Deps
	admission admission
	gaps      gaps

	mu      sync.Mutex
	ctx     context.Context // guarded by mu; of Run, nil before and after
	workers map[types.UID]*pod.Worker
	wg      sync.WaitGroup
}

// New makes a Kubelet. It touches neither the runtime nor the API server.
func New(o Options) (*Kubelet, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.defaults()
	k := &Kubelet{opts: o, rt: o.Runtime, close: func() error { return nil }, workers: map[types.UID]*pod.Worker{}}
	k.gaps.known = map[loop.Key]loop.Gap{}
	if k.rt == nil {
		c, err := cri.Dial(o.RuntimeEndpoint, o.ImageEndpoint)
		if err != nil {
			return nil, err
		}
		k.rt, k.close = c, c.Close
	}
	if err := os.MkdirAll(filepath.Join(o.RootDir, "pods"), 0o750); err != nil {
		return nil, err
	}
	root, err := filepath.EvalSymlinks(o.RootDir) // mounts are known by their real paths
	if err != nil {
		return nil, err
	}
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	k.opts.RootDir = root
	if k.opts.PodLogsDir, err = filepath.Abs(k.opts.PodLogsDir); err != nil {
		return nil, err
	}
	if k.cgroups, err = cgroup.Open(o.CgroupParent); err != nil {
		o.Logger.Warn("pods run without limits of their own", "error", err)
		k.cgroups = nil
	}
	return k, k.wire()
}

// wire puts the parts together.
func (k *Kubelet) wire() (err error) {
	o := &k.opts
	k.events = event.New(o.Client, o.NodeName, o.Logger)
	k.objects = object.New(o.Client, k.objectChanged)
	k.pods = o.Client.View(pod.Resource, client.ViewOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", o.NodeName).String()})
	k.pods.Index(byUID, uidOf)
	k.pods.Index(byVolumeImage, volumeImageOf)
	k.node = node.New(node.Options{
		Name: o.NodeName, Client: o.Client, Runtime: k.rt, IPs: o.NodeIPs, Port: o.Port, MaxPods: o.MaxPods,
		Labels: o.Labels, Taints: o.RegisterWithTaints, RootDir: o.RootDir, Logger: o.Logger, Events: k.events,
	})
	var ips []string
	for _, ip := range o.NodeIPs {
		ips = append(ips, ip.String())
	}
	k.certificates = podcertificate.New(podcertificate.Options{
		NodeName: o.NodeName, Client: o.Client, Node: k.node.Node, Changed: k.objectChanged,
		Warn: func(p *v1.Pod, why error) {
			k.events.Pod(p, "", v1.EventTypeWarning, "FailedCertificateRefresh", "%v", why)
		},
	})
	k.devices, err = dra.New(dra.Options{Node: o.NodeName, Client: o.Client, Root: o.RootDir, Logger: o.Logger})
	if err != nil {
		return err
	}
	k.csi, err = csi.New(csi.Options{
		Root: o.RootDir, Node: o.NodeName, Client: o.Client, Secret: k.objects.Secret, Events: k.events, Changed: k.objectChanged, Logger: o.Logger,
		Token: func(ctx context.Context, p *v1.Pod, audience string, seconds int64) (string, time.Time, error) {
			return k.volumes.Token(ctx, p, audience, seconds)
		},
	})
	if err != nil {
		return err
	}
	k.volumes = volume.New(volume.Options{
		Root: o.RootDir, Objects: k.objects, Token: k.token, Certificates: k.certificates, Claim: k.claim, Drivers: k.csi,
		Facts: func(p *v1.Pod) env.Pod {
			return env.Pod{IPs: podIPs(p), HostIPs: ips, Allocatable: k.node.Allocatable()}
		},
	})
	k.services = o.Client.View(v1.SchemeGroupVersion.WithResource("services"), client.ViewOptions{})
	k.deps = &pod.Deps{
		Runtime: k.rt, Client: o.Client, Pods: k.pods, Volumes: k.volumes, Devices: k.devices, Cgroups: k.cgroups, Objects: k.objects, Events: k.events,
		Images: image.New(image.Options{Images: k.rt, Events: k.events, Secrets: k.objects.Secret}),
		Services: func(ns string) []*v1.Service {
			var out []*v1.Service
			for _, s := range k.services.List(ns) {
				out = append(out, s.(*v1.Service))
			}
			return out
		},
		Admit:       k.admit,
		Fits:        k.fits,
		Allocatable: k.node.Allocatable(), Memory: k.node.Memory(),
		Owner: o.Owner, HostIPs: ips, LogsDir: o.PodLogsDir, ClusterDomain: o.ClusterDomain, ClusterDNS: o.ClusterDNS,
		ResolvConf: o.ResolvConf, SeccompDir: filepath.Join(o.RootDir, "seccomp"),
		Log: o.Logger, Observe: k.observe,
	}
	return nil
}

func podIPs(p *v1.Pod) []string {
	var out []string
	for _, ip := range p.Status.PodIPs {
		out = append(out, ip.IP)
	}
	return out
}

// Run looks after the node until ctx ends. Containers run on.
func (k *Kubelet) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := volume.Share(k.opts.RootDir); err != nil {
		k.opts.Logger.Warn("mounts of containers do not reach the host", "error", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { k.events.Run(ctx) })
	wg.Go(func() { k.node.Run(ctx) })
	wg.Go(func() { k.csi.Run(ctx) })
	wg.Go(func() { k.devices.Run(ctx) })
	wg.Go(func() {
		if err := k.plugins().Run(ctx); err != nil {
			k.opts.Logger.Warn("no plugins are registered", "error", err)
		}
	})
	if k.opts.ServingTLS != nil {
		srv, err := k.server()
		if err != nil {
			cancel(err)
			wg.Wait()
			return err
		}
		wg.Go(func() {
			if err := srv.Run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("kubelet server: %w", err))
			}
		})
	}
	err := k.runPods(ctx, &wg)
	if err != nil {
		cancel(err)
	}
	wg.Wait()
	k.wg.Wait()
	if closeErr := k.close(); closeErr != nil && err == nil {
		err = closeErr
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// runPods keeps a worker for every pod until ctx ends.
func (k *Kubelet) runPods(ctx context.Context, wg *sync.WaitGroup) error {
	if err := k.pods.WaitSynced(ctx); err != nil {
		return err
	}
	if err := k.services.WaitSynced(ctx); err != nil {
		return err
	}
	if err := k.waitRuntime(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	k.ctx = ctx
	k.mu.Unlock()
	remove := k.pods.Handle(k.podChanged)
	defer remove()
	defer k.certificates.Follow()()
	wg.Go(func() { k.sweep(ctx) })
	wg.Go(func() { k.housekeep(ctx) })
	wg.Go(func() { k.keepRoom(ctx) })
	k.relist(ctx)
	k.mu.Lock()
	k.ctx = nil // no new workers from here on
	k.mu.Unlock()
	return nil
}

// waitRuntime waits until the runtime answers: without it nothing can be said
// of any pod.
func (k *Kubelet) waitRuntime(ctx context.Context) error {
	if k.opts.Ready != nil {
		select {
		case <-k.opts.Ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if err := k.node.Ask(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

func (k *Kubelet) podChanged(old, now client.Object) {
	o := now
	if o == nil {
		o = old
	}
	p, ok := o.(*v1.Pod)
	if !ok {
		return
	}
	if old != nil && old.GetUID() != p.UID {
		k.wake(old.GetUID(), (*pod.Worker).Wake)
	}
	if now == nil {
		k.wake(p.UID, (*pod.Worker).Wake)
		return
	}
	k.worker(p).Wake()
}

// worker is the pod's worker, made when there is none.
func (k *Kubelet) worker(p *v1.Pod) *pod.Worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.workers[p.UID]
	if w != nil {
		return w
	}
	w = pod.New(k.deps, p)
	if k.ctx == nil {
		return w // ends: nobody looks any more
	}
	k.workers[p.UID] = w
	ctx := k.ctx
	k.wg.Go(func() {
		w.Run(ctx)
		k.mu.Lock()
		delete(k.workers, p.UID)
		k.mu.Unlock()
		k.gaps.forget(loop.Key{Namespace: p.Namespace, Name: p.Name})
	})
	return w
}

// wake wakes a pod's worker if there is one, and tells whether there is.
func (k *Kubelet) wake(uid types.UID, how func(*pod.Worker)) bool {
	k.mu.Lock()
	w := k.workers[uid]
	k.mu.Unlock()
	if w != nil {
		how(w)
	}
	return w != nil
}

func (k *Kubelet) objectChanged(owner types.UID) { k.wake(owner, (*pod.Worker).WakeObject) }

// token asks the API server for a token of the pod's service account, bound to
// the pod: it dies with it.
func (k *Kubelet) token(ctx context.Context, p *v1.Pod, audience string, seconds int64) (string, time.Time, error) {
	req := &authv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Spec.ServiceAccountName},
		Spec: authv1.TokenRequestSpec{ExpirationSeconds: &seconds,
			BoundObjectRef: &authv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.Name, UID: p.UID}},
	}
	if audience != "" {
		req.Spec.Audiences = []string{audience}
	}
	o, err := k.opts.Client.Create(ctx, v1.SchemeGroupVersion.WithResource("serviceaccounts"), req, "token")
	if err != nil {
		return "", time.Time{}, err
	}
	t, ok := o.(*authv1.TokenRequest)
	if !ok {
		return "", time.Time{}, fmt.Errorf("the API server answered a token request with %T", o)
	}
	return t.Status.Token, t.Status.ExpirationTimestamp.Time, nil
}

func (k *Kubelet) server() (*server.Server, error) {
	var at []string
	for _, ip := range k.opts.NodeIPs {
		at = append(at, netip.AddrPortFrom(ip, uint16(k.opts.Port)).String())
	}
	return server.New(server.Options{
		Addrs: at, Certificate: k.opts.ServingTLS, ClientCA: k.opts.ClientCA, Clients: k.opts.Clients,
		Client: k.opts.Client, Runtime: k.rt, Stats: k.stats().Summary, Pods: k.pods, Owner: k.opts.Owner, LogsDir: k.opts.PodLogsDir, Node: k.opts.NodeName, Logger: k.opts.Logger,
	})
}
