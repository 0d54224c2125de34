package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/setpoint-project/setpoint/internal/apiserver"
	"github.com/setpoint-project/setpoint/internal/apiserver/admission/dynamic"
	"github.com/setpoint-project/setpoint/internal/apiserver/aggregation"
	"github.com/setpoint-project/setpoint/internal/apiserver/crd"
	"github.com/setpoint-project/setpoint/internal/apiserver/gather"
	"github.com/setpoint-project/setpoint/internal/apiserver/h2"
	"github.com/setpoint-project/setpoint/internal/apiserver/nodeproxy"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/internal/store"
	"github.com/setpoint-project/setpoint/internal/store/local"
)

// clusterDomain ends the names of services.
const clusterDomain = "cluster.local"

// issuer of service account tokens.
const issuer = "https://kubernetes.default.svc." + clusterDomain

// controlPlane is the store with the API server before it.
type controlPlane struct {
	opts        *Options
	state       *State
	authority   *pki.Authority
	store       store.Store
	server      *apiserver.Server
	definitions *crd.Registrar
	aggregator  *aggregation.Aggregator
	hooks       *dynamic.Hooks
	nodes       *nodeproxy.Proxy
	listeners   []net.Listener // the first is what --listen names
	forPods     netip.AddrPort // where pods reach the API server, when elsewhere
	serving     *pki.Rotating
	requests    *requestLog
	gaps        *gapList
	reports     *reports
	lock        *dataLock
	log         *slog.Logger
}

// openControlPlane opens store and API server. It answers once run runs it.
func openControlPlane(ctx context.Context, o *Options, s *State) (*controlPlane, error) {
	c := &controlPlane{opts: o, state: s, gaps: &gapList{}, log: o.logger()}
	c.reports = newReports(c.gaps)
	c.reports.gone = c.nodeGone
	err := c.open(ctx)
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *controlPlane) open(ctx context.Context) (err error) {
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
	first, err := c.state.listen(ctx, c.opts)
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
	if given := c.opts.Given.Serving; given != nil {
		return given, nil
	}
	// The node's bridge, where pods come in. It is the first of the pod ranges,
	// whether this machine is a node yet or not.
	ips := netIPs(c.state.gateways())
	if len(ips) == 0 {
		for _, p := range c.state.ClusterCIDRs {
			ips = append(ips, net.IP(p.Masked().Addr().Next().AsSlice()))
		}
	}
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
	var services []net.IP // of both families, whichever the service has
	for _, p := range c.state.ServiceCIDRs {
		services = append(services, net.IP(p.Masked().Addr().Next().AsSlice()))
	}
	return c.authority.APIServer(services, clusterDomain, nil, ips)
}

// run serves until p's context ends, then ends requests and watches in good
// order.
func (c *controlPlane) run(p *parts) error {
	p.run("API server", c.server.Run)
	p.run("custom resource definitions", c.definitions.Run)
	p.run("API services", c.aggregator.Run)
	c.gaps.add(c.definitions.Loop())
	c.gaps.add(c.aggregator.Loop())
	if failing, ok := c.store.(interface{ Failed() error }); ok {
		p.run("data folder", func(ctx context.Context) error { return untilFailed(ctx, failing.Failed) })
	}
	srv := &http.Server{Handler: c.server, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 90 * time.Second, TLSConfig: c.serverTLS(),
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug)}
	h2.Configure(srv)
	for _, l := range c.listeners {
		p.run("API server", func(context.Context) error {
			err := srv.ServeTLS(gather.Listener(l), "", "")
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
	c.lock.release()
}

// dial gives a loop of this process its client.
func (c *controlPlane) dial(id client.Identity) (client.Interface, error) {
	return c.server.Client(id), nil
}

// alsoListen serves on further addresses, for pods, at the port of the first.
// Pods are told of the first of them.
func (c *controlPlane) alsoListen(ctx context.Context, addrs []netip.Addr) error {
	first := c.listeners[0].Addr().(*net.TCPAddr)
	c.forPods = netip.AddrPortFrom(addrs[0], uint16(first.Port))
	if first.IP.IsUnspecified() {
		return nil // of both families
	}
	for _, addr := range addrs {
		l, err := listenTCP(ctx, c.opts, netip.AddrPortFrom(addr, uint16(first.Port)).String())
		if err != nil {
			return fmt.Errorf("listen for pods: %w", err)
		}
		c.listeners = append(c.listeners, l)
	}
	return nil
}
