package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/identitylease"
	"github.com/setpoint-project/setpoint/internal/controllers/systemobjects"
	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

// Up runs a whole cluster until ctx ends. When the disk fails, also before the
// cluster is open, the error is a StoreError.
func Up(ctx context.Context, o Options) error { return blameDisk(up(ctx, o)) }

func up(ctx context.Context, o Options) error {
	begin := time.Now()
	want, err := parseNodes(o.Nodes)
	if err != nil {
		return err
	}
	unlock := func() {}
	if want.host && os.Geteuid() == 0 {
		unlock = lockMachine()
	}
	c, err := openCluster(ctx, &o)
	if err != nil {
		unlock()
		return err
	}
	defer c.close()
	var host *node
	if want.host {
		host, err = c.hostNode(ctx)
	}
	if unlock(); err != nil {
		return err
	}
	p := newParts(ctx)
	if err := c.runAll(p, begin, host, want.sim); err != nil {
		p.cancel(err)
	}
	return p.wait(ctx)
}

func (c *controlPlane) runAll(p *parts, begin time.Time, host *node, simulated int) error {
	if err := c.start(p, begin); err != nil {
		return err
	}
	keys, err := c.signers()
	if err != nil {
		return err
	}
	if err := startLoops(p, c.dial, c.ranges(), c.servingCA(), keys, c.gaps, c.log); err != nil {
		return err
	}
	if err := startScheduler(p, c.dial, c.gaps, c.opts); err != nil {
		return err
	}
	if simulated > 0 {
		if err := startSimulated(p, c.dial, simulated, c.gaps, c.log); err != nil {
			return err
		}
	}
	if host == nil {
		return nil
	}
	certs, err := c.kubeletCerts(host)
	if err != nil {
		return err
	}
	return host.run(p, c.dial, certs, c.gaps)
}

// openCluster opens the data folder and the control plane, and notes that
// this process has it now.
func openCluster(ctx context.Context, o *Options) (_ *controlPlane, err error) {
	lock, err := lockData(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.release()
		}
	}()
	state, err := openState(o)
	if err != nil {
		return nil, err
	}
	if state.Server != "" {
		return nil, fmt.Errorf("%s is that of an agent of %s: a cluster needs a data folder of its own", o.DataDir, state.Server)
	}
	c, err := openControlPlane(ctx, o, state)
	if err != nil {
		return nil, err
	}
	c.lock = lock
	state.Listen, state.PID = c.listeners[0].Addr().String(), os.Getpid()
	if err := state.save(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// start serves the API and says so once it answers.
func (c *controlPlane) start(p *parts, begin time.Time) error {
	if err := c.run(p); err != nil {
		return err
	}
	info, err := c.writeKubeconfigs()
	if err != nil {
		return err
	}
	if err := c.untilReady(p.ctx); err != nil {
		return err
	}
	if err := c.startBootstrap(p); err != nil {
		return err
	}
	if err := c.ensureStorage(p.ctx); err != nil {
		c.log.Warn("the default storage class is missing; the next start tries again", "error", err)
	}
	info.Took = time.Since(begin)
	if c.opts.Ready != nil {
		c.opts.Ready(info)
	}
	if !c.opts.Given.AllowAll {
		p.run("default roles", c.ensureRoles)
	}
	return nil
}

// ensureRoles makes the roles that every cluster has. Nobody waits for them:
// what the cluster's own parts may do does not depend on them.
func (c *controlPlane) ensureRoles(ctx context.Context) error {
	if err := authz.EnsureDefaults(ctx, c.self()); err != nil && ctx.Err() == nil {
		c.log.Warn("some default roles are missing; the next start tries again", "error", err)
	}
	return nil
}

// untilReady asks the server itself, over TLS, as a client would.
func (c *controlPlane) untilReady(ctx context.Context) error {
	pair, err := c.authority.Admin()
	if err != nil {
		return err
	}
	return probeReady(ctx, reachable(c.listeners[0]).String(), c.selfTLS(pair))
}

// startBootstrap runs the loops that keep what every cluster has: namespaces,
// the service by which pods reach this very server, and the lease by which
// servers know of each other.
func (c *controlPlane) startBootstrap(p *parts) error {
	at := c.forPods
	if !at.IsValid() {
		at = reachable(c.listeners[0]).AddrPort()
	}
	server := systemobjects.Server{ServiceIP: c.state.apiServiceIP(), Port: int32(at.Port())}
	// An endpoint on loopback would be the pod itself, and is not allowed.
	if addr := at.Addr().Unmap(); !addr.IsLoopback() {
		server.Addresses = []netip.Addr{addr}
	}
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	run := func(l controllers.Controller) {
		c.gaps.add(l)
		p.run(l.Name(), l.Run)
	}
	opts := controllers.Options{Client: c.self(), Logger: c.log}
	run(systemobjects.New(opts, server))
	if err := c.untilNamespaces(p.ctx); err != nil {
		return err
	}
	run(identitylease.New(opts, identitylease.Of(hostname)))
	return nil
}

// untilNamespaces waits for the namespaces that every cluster has, so that
// nobody who was told that the cluster is ready misses one.
func (c *controlPlane) untilNamespaces(ctx context.Context) error {
	view := c.self().View(client.Namespaces, client.ViewOptions{})
	changed := make(chan struct{}, 1)
	defer view.Handle(func(_, _ client.Object) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	for _, name := range systemobjects.Namespaces {
		for view.Get("", name) == nil {
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// hostNode makes this machine a node of the cluster in this process: its
// network is there when it returns.
func (c *controlPlane) hostNode(ctx context.Context) (*node, error) {
	name, err := nodeName(c.opts)
	if err != nil {
		return nil, err
	}
	nodes, err := c.list(ctx, client.Nodes, "")
	if err != nil {
		return nil, err
	}
	c.state.takeParts(name, nodes)
	if err := checkNodeIPs(c.opts.NodeIPs, c.state.PodCIDRs); err != nil {
		return nil, err
	}
	c.state.Node = name
	rememberNodeIPs(c.opts, c.state)
	if err := c.state.save(); err != nil {
		return nil, err
	}
	n, err := newNode(c.opts, c.state, name)
	if err != nil {
		return nil, err
	}
	return n, c.alsoListen(ctx, n.host.Gateways())
}

func (c *controlPlane) kubeletCerts(n *node) (kubeletCerts, error) {
	serving, err := pki.NewRotating(func() (*pki.Pair, error) {
		return c.authority.KubeletServing(n.name, netIPs(n.ips))
	})
	if err != nil {
		return kubeletCerts{}, err
	}
	return kubeletCerts{serving.GetCertificate, c.authority.Pool()}, nil
}

// simulatedIdentity is that of simulated nodes: many nodes in one process, for
// which no single node's rights would do.
var simulatedIdentity = client.Identity{User: "setpoint:simulated-nodes", Groups: []string{pki.MastersGroup}, UserAgent: "setpoint-simnodes"}

// startSimulated runs simulated nodes.
func startSimulated(p *parts, dial connect, n int, gaps *gapList, log *slog.Logger) error {
	c, err := dial(simulatedIdentity)
	if err != nil {
		return err
	}
	nodes, err := simnode.New(simnode.Options{Client: c, Count: n, Logger: log})
	if err != nil {
		return err
	}
	gaps.add(nodes)
	p.run("simulated nodes", nodes.Run)
	return nil
}
