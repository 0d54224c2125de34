package cluster

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver"
	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/apiserver/discovery"
	"github.com/setpoint-project/setpoint/internal/apiserver/health"
	"github.com/setpoint-project/setpoint/internal/apiserver/nodeproxy"
	"github.com/setpoint-project/setpoint/internal/apiserver/openapi"
	"github.com/setpoint-project/setpoint/internal/apiserver/tokens"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
	"github.com/setpoint-project/setpoint/internal/kubeconfig"
	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/internal/store"
	"github.com/setpoint-project/setpoint/internal/store/local"
	"github.com/setpoint-project/setpoint/internal/version"
)

// clusterDomain ends the names of services.
const clusterDomain = "cluster.local"

// issuer of service account tokens.
const issuer = "https://kubernetes.default.svc." + clusterDomain

// controlPlane is the store with the API server before it.
type controlPlane struct {
	opts      *Options
	state     *State
	authority *pki.Authority
	store     store.Store
	server    *apiserver.Server
	listeners []net.Listener // the first is what --listen names
	forPods   netip.AddrPort // where pods reach the API server, when elsewhere
	serving   *pki.Rotating
	requests  *requestLog
	gaps      *gapList
	log       *slog.Logger
}

// openControlPlane opens store and API server. It answers once run runs it.
func openControlPlane(o *Options, s *State) (*controlPlane, error) {
	c := &controlPlane{opts: o, state: s, gaps: &gapList{}, log: o.logger()}
	err := c.open()
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *controlPlane) open() (err error) {
	// The store's lock is the cluster's: a second process stops here.
	options := local.Options{HistoryAge: c.opts.HistoryAge, HistoryRevisions: c.opts.HistoryRevisions, Logger: c.log}
	if !c.opts.InMemory {
		options.Dir = filepath.Join(c.opts.DataDir, "store")
	}
	opened, err := local.Open(options)
	if err != nil {
		return err // c.store stays nil: a nil *local.Store in it would not be
	}
	c.store = opened
	if c.authority, err = pki.Open(filepath.Join(c.opts.DataDir, "pki")); err != nil {
		return err
	}
	first, err := c.state.listen(c.opts.Listen)
	if err != nil {
		return err
	}
	c.listeners = []net.Listener{first}
	if c.serving, err = pki.NewRotating(c.servingCertificate); err != nil {
		return err
	}
	if c.opts.RequestLog != "" {
		if c.requests, err = openRequestLog(c.opts.RequestLog); err != nil {
			return err
		}
	}
	return c.openServer()
}

// servingCertificate names every address at which the API server is reached.
func (c *controlPlane) servingCertificate() (*pki.Pair, error) {
	// The node's bridge, where pods come in. It is the first of the pod range,
	// whether this machine is a node yet or not.
	bridge := c.state.gateway()
	if !bridge.IsValid() {
		bridge = c.state.ClusterCIDR.Masked().Addr().Next()
	}
	ips := []net.IP{net.IP(bridge.AsSlice())}
	if host := c.listeners[0].Addr().(*net.TCPAddr).IP; !host.IsUnspecified() {
		ips = append(ips, host)
	} else {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				ips = append(ips, n.IP)
			}
		}
	}
	return c.authority.APIServer(net.IP(c.state.apiServiceIP().AsSlice()), clusterDomain, nil, ips)
}

func (c *controlPlane) openServer() error {
	key, err := c.authority.ServiceAccountKey()
	if err != nil {
		return err
	}
	signer, err := authn.NewSigner(issuer, key)
	if err != nil {
		return err
	}
	audiences := []string{issuer}
	accounts, err := authn.NewServiceAccounts(issuer, audiences, []crypto.PublicKey{key.Public()}, c.get)
	if err != nil {
		return err
	}
	allocator, err := admission.NewServiceAllocator(c.state.ServiceCIDR, c.get, c.list)
	if err != nil {
		return err
	}
	authorizer := &authz.Builtin{Nodes: &authz.Nodes{PodsOn: c.podsOn}}
	cfg := apiserver.Config{
		Store: c.store, Kinds: all.Kinds(), Logger: c.log, Metrics: prometheus.NewRegistry(),
		Authenticators: []authn.Authenticator{authn.NewClientCerts(c.authority.Pool()), authn.Bearer{Tokens: accounts}},
		Authorizer:     authorizer,
		Admission: []admission.Plugin{
			&admission.NamespaceLifecycle{Get: c.get},
			&admission.ServiceAccount{Get: c.get},
			&admission.NodeRestriction{Get: c.get, NodeOf: authz.NodeOf},
			&admission.Priority{Get: c.get, List: c.list},
			&admission.DefaultTolerationSeconds{},
			allocator,
		},
	}
	if c.requests != nil {
		cfg.RequestLog = c.requests.record
	}
	if cfg.Subresources, err = c.subresources(signer, accounts, audiences, authorizer); err != nil {
		return err
	}
	if cfg.Paths, err = c.paths(cfg.Kinds, cfg.Metrics, signer); err != nil {
		return err
	}
	c.server, err = apiserver.New(cfg)
	return err
}

// subresources are what is no view of an object: tokens, reviews, and the
// streams that go on to a node.
func (c *controlPlane) subresources(signer *authn.Signer, accounts *authn.ServiceAccounts, audiences []string, authorizer *authz.Builtin) (map[string]apiserver.SubresourceHandler, error) {
	kubeletClient, err := pki.NewRotating(c.authority.KubeletClient)
	if err != nil {
		return nil, err
	}
	reviews := &tokens.Reviews{Tokens: accounts, Audiences: audiences}
	access := &tokens.Access{Authorizer: authorizer, RulesFor: authorizer.RulesFor}
	handlers := map[string]apiserver.SubresourceHandler{
		"serviceaccounts/token":                          (&tokens.Issuer{Signer: signer, Audiences: audiences, Get: c.get}).ServeToken,
		"tokenreviews.authentication.k8s.io":             reviews.ServeToken,
		"selfsubjectreviews.authentication.k8s.io":       reviews.ServeSelf,
		"subjectaccessreviews.authorization.k8s.io":      access.ServeSubject,
		"localsubjectaccessreviews.authorization.k8s.io": access.ServeLocal,
		"selfsubjectaccessreviews.authorization.k8s.io":  access.ServeSelf,
		"selfsubjectrulesreviews.authorization.k8s.io":   access.ServeRules,
	}
	streams := nodeproxy.New(nodeproxy.Config{Get: c.get, List: c.list, KubeletTLS: c.authority.ClientTLS(kubeletClient)})
	for name, h := range streams.Handlers() {
		handlers[name] = h
	}
	return handlers, nil
}

// paths are what the API server serves besides resources.
func (c *controlPlane) paths(served []*kinds.Kind, registry *prometheus.Registry, signer *authn.Signer) (map[string]http.Handler, error) {
	token, err := c.authority.JoinToken(filepath.Join(c.opts.DataDir, "token"))
	if err != nil {
		return nil, err
	}
	list := func() []*kinds.Kind { return served }
	found := discovery.New(list, nil)
	paths := map[string]http.Handler{
		"/api": found, "/api/": found, "/apis": found, "/apis/": found,
		"/version":   health.Version(health.Build{Version: version.Setpoint, Commit: version.Revision()}),
		"/metrics":   health.Metrics(registry),
		GapsPath:     c.gaps,
		RangesPath:   jsonHandler(c.state.ranges()),
		pki.JoinPath: c.authority.JoinHandler(token, func() *x509.Certificate { return c.serving.Pair().Cert }),
	}
	checks := &health.Checks{Logger: c.log}
	checks.Add(health.Check{Name: "watches", Live: true, Test: func(context.Context) error { return c.server.Ready() }})
	if failing, ok := c.store.(interface{ Failed() error }); ok {
		checks.Add(health.Check{Name: "store", Live: true, Test: func(context.Context) error { return failing.Failed() }})
	}
	maps.Copy(paths, checks.Paths())
	maps.Copy(paths, profiles())
	maps.Copy(paths, openapi.New(version.Kubernetes, list, nil).Paths())
	maps.Copy(paths, tokens.OpenID(signer, "https://"+c.state.apiServiceIP().String()))
	return paths, nil
}

// get and list are how plugins read: from the API server's own memory.
func (c *controlPlane) get(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error) {
	return c.self().Get(ctx, res, namespace, name)
}

func (c *controlPlane) list(ctx context.Context, res client.Resource, namespace string) ([]client.Object, error) {
	objects, _, err := c.self().List(ctx, res, namespace, metav1.ListOptions{})
	return objects, err
}

const byNode = "node"

// podsOn lists the pods of a node, for the node authorizer.
func (c *controlPlane) podsOn(node string) []*corev1.Pod {
	view := c.self().View(client.Pods, client.ViewOptions{})
	view.Index(byNode, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	return client.Indexed[*corev1.Pod](view, byNode, node)
}

// self is the API server's own client, for what stands in the request path.
func (c *controlPlane) self() client.Interface {
	return c.server.Client(client.Identity{User: "system:apiserver", Groups: []string{pki.MastersGroup}, UserAgent: "setpoint-apiserver"})
}

// writeKubeconfigs writes how each part reaches the API server, and the
// administrator's.
func (c *controlPlane) writeKubeconfigs() (Info, error) {
	info := Info{URL: "https://" + reachable(c.listeners[0]).String(), Kubeconfig: AdminKubeconfig(c.opts.DataDir)}
	for name, identity := range map[string]func() (*pki.Pair, error){
		"admin": c.authority.Admin, "controllers": c.authority.ControllerManager, "scheduler": c.authority.Scheduler,
	} {
		pair, err := identity()
		if err != nil {
			return info, err
		}
		config := kubeconfig.Config{Cluster: "setpoint", Server: info.URL, User: name, CA: c.authority.CAPEM(), Cert: pair.CertPEM, Key: pair.KeyPEM}
		if err := config.Write(kubeconfigPath(c.opts.DataDir, name)); err != nil {
			return info, err
		}
		if name == "admin" && c.opts.Kubeconfig != "" {
			if err := config.Write(c.opts.Kubeconfig); err != nil {
				return info, fmt.Errorf("--kubeconfig: %w", err)
			}
		}
	}
	return info, nil
}

func kubeconfigPath(dataDir, name string) string {
	return filepath.Join(dataDir, "kubeconfigs", name+".kubeconfig")
}

// AdminKubeconfig is where a data folder keeps the administrator's kubeconfig.
func AdminKubeconfig(dataDir string) string { return kubeconfigPath(dataDir, "admin") }

// run serves until p's context ends, then ends requests and watches in good
// order.
func (c *controlPlane) run(p *parts) error {
	p.run("API server", c.server.Run)
	srv := &http.Server{Handler: c.server, ReadHeaderTimeout: 30 * time.Second, TLSConfig: c.authority.ServerTLS(c.serving),
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug)}
	// Many watches share a connection.
	if err := http2.ConfigureServer(srv, &http2.Server{MaxConcurrentStreams: 1000}); err != nil {
		return err
	}
	for _, l := range c.listeners {
		p.run("API server", func(context.Context) error {
			err := srv.ServeTLS(l, "", "")
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		})
	}
	p.run("API server", func(ctx context.Context) error {
		<-ctx.Done()
		// The API server ends its watches on its own; what takes longer is cut.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if srv.Shutdown(end) != nil {
			srv.Close()
		}
		return nil
	})
	return nil
}

// close gives back what open took; run must have ended.
func (c *controlPlane) close() {
	for _, l := range c.listeners {
		l.Close()
	}
	if c.store != nil {
		if err := c.store.Close(); err != nil {
			c.log.Error("closing the store", "error", err)
		}
	}
	if c.requests != nil {
		c.requests.close()
	}
}

// dial gives a loop of this process its client.
func (c *controlPlane) dial(id client.Identity) (client.Interface, error) {
	return c.server.Client(id), nil
}

// alsoListen serves on a further address, for pods, at the port of the first.
func (c *controlPlane) alsoListen(addr netip.Addr) error {
	first := c.listeners[0].Addr().(*net.TCPAddr)
	c.forPods = netip.AddrPortFrom(addr, uint16(first.Port))
	if first.IP.IsUnspecified() {
		return nil
	}
	l, err := net.Listen("tcp", c.forPods.String())
	if err != nil {
		return fmt.Errorf("listen for pods: %w", err)
	}
	c.listeners = append(c.listeners, l)
	return nil
}
