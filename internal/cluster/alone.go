package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubeconfig"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// RunServer runs the API server and its store alone. When the disk fails, also
// before the store is open, the error is a StoreError.
func RunServer(ctx context.Context, o Options) error { return blameDisk(runServer(ctx, o)) }

func runServer(ctx context.Context, o Options) error {
	begin := time.Now()
	o.Nodes = "none"
	c, err := openCluster(ctx, &o)
	if err != nil {
		return err
	}
	defer c.close()
	p := newParts(ctx)
	// Without them no claim comes true.
	c.reports.expect(controllersIdentity.User, "controllers")
	c.reports.expect(schedulerIdentity.User, "scheduler")
	if err := c.start(p, begin); err != nil {
		p.cancel(err)
	}
	return p.wait(ctx)
}

// RunControllers runs every loop but the scheduler over the network. Those that
// sign do so with the keys that lie in the data folder; where none do, they do
// not run.
func RunControllers(ctx context.Context, o Options, kubeconfigFile string) error {
	return runAlone(ctx, kubeconfigFile, "controllers", controllersIdentity.User, o, func(p *parts, cfg *rest.Config, dial connect, gaps *gapList) error {
		ranges, err := askRanges(ctx, cfg)
		if err != nil {
			return err
		}
		keys, err := signersIn(filepath.Join(o.DataDir, "pki"), cfg.CAData)
		if err != nil {
			return err
		}
		if keys.authority == nil {
			o.logger().Warn("no keys of the cluster: certificates and token Secrets are not signed here", "folder", filepath.Join(o.DataDir, "pki"))
		}
		return startLoops(p, dial, ranges, cfg.CAData, keys, gaps, o.logger())
	})
}

// RunScheduler runs the scheduler over the network.
func RunScheduler(ctx context.Context, o Options, kubeconfigFile string) error {
	return runAlone(ctx, kubeconfigFile, "scheduler", schedulerIdentity.User, o, func(p *parts, _ *rest.Config, dial connect, gaps *gapList) error {
		return startScheduler(p, dial, gaps, &o)
	})
}

// RunSimulated runs n simulated nodes over the network.
func RunSimulated(ctx context.Context, o Options, kubeconfigFile string, n int) error {
	return runAlone(ctx, kubeconfigFile, "simnodes", simulatedIdentity.User, o, func(p *parts, _ *rest.Config, dial connect, gaps *gapList) error {
		return startSimulated(p, dial, n, gaps, o.logger())
	})
}

// runAlone runs a part over the network, and has its gaps reported as those of
// user.
func runAlone(ctx context.Context, kubeconfigFile, part, user string, o Options, start func(*parts, *rest.Config, connect, *gapList) error) error {
	cfg, err := kubeconfig.Load(kubeconfigFile)
	if err != nil {
		return err
	}
	p := newParts(ctx)
	remotes := &remotes{cfg: cfg}
	defer remotes.close()
	gaps := &gapList{}
	err = startReporter(p, cfg, part, user, gaps, o.logger())
	if err == nil {
		err = start(p, cfg, remotes.dial, gaps)
	}
	if err != nil {
		p.cancel(err)
	}
	return p.wait(ctx)
}

// remotes are the clients of a process that talks to the API over the network.
type remotes struct {
	cfg  *rest.Config
	open []*client.Remote
}

// dial makes a client with the credentials of cfg, whatever the identity: who
// one is, the credentials say.
func (r *remotes) dial(id client.Identity) (client.Interface, error) {
	c, err := client.NewRemote(r.cfg, id)
	if err != nil {
		return nil, err
	}
	r.open = append(r.open, c)
	return c, nil
}

func (r *remotes) close() {
	for _, c := range r.open {
		c.Close()
	}
}

// askRanges asks the API server for the address ranges of its cluster, until
// it answers.
func askRanges(ctx context.Context, cfg *rest.Config) (Ranges, error) {
	var ranges Ranges
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return ranges, err
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		again, err := getRanges(ctx, c, cfg.Host+RangesPath, &ranges)
		if !again {
			return ranges, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ranges, errors.Join(context.Cause(ctx), err)
		}
	}
}

// getRanges asks once, and tells whether it is of use to ask again.
func getRanges(ctx context.Context, c *http.Client, url string, ranges *Ranges) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	res, err := c.Do(req)
	if err != nil {
		return true, err
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 && res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests {
		return false, fmt.Errorf("%s: %s", url, res.Status)
	}
	err = json.NewDecoder(res.Body).Decode(ranges)
	return err != nil || res.StatusCode != http.StatusOK, err
}

// ErrNoServer says that an agent does not know which cluster to join.
var ErrNoServer = errors.New("--server is required the first time")

// JoinOptions say which cluster an agent joins.
type JoinOptions struct {
	Server string // https://HOST:PORT; empty: as last time
	Token  string // needed the first time
}

// recall fills in what an agent's data folder remembers and no flag says.
func recall(o *Options, join *JoinOptions) error {
	had, err := LoadState(o.DataDir)
	switch {
	case errors.Is(err, ErrNoCluster):
		had = &State{}
	case err != nil:
		return err
	case had.Server == "" && had.Listen != "":
		return fmt.Errorf("%s holds a cluster of its own: an agent needs another data folder", o.DataDir)
	}
	join.Server = cmp.Or(join.Server, had.Server)
	if join.Server == "" {
		return ErrNoServer
	}
	if err := checkNodeIPs(o.NodeIPs, had.PodCIDRs); err != nil {
		return err
	}
	rememberNodeIPs(o, had)
	return nil
}

// agentIPs are this machine's addresses on its default routes. Once it is a
// node, they are those of the families that it has pods of: its certificate
// names no more.
func agentIPs(o *Options) Addresses {
	ips := Addresses(network.DefaultAddresses())
	if had, err := LoadState(o.DataDir); err == nil && len(had.PodCIDRs) > 0 {
		return ofFamilies(ips, had.PodCIDRs)
	}
	return ips
}

// ofFamilies are the addresses of the families that ranges have.
func ofFamilies(ips Addresses, ranges Prefixes) Addresses {
	return slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool {
		return !slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Addr().Is6() == ip.Is6() })
	})
}

// RunAgent makes this machine a node of a cluster elsewhere. When the disk
// fails, the error is a StoreError.
func RunAgent(ctx context.Context, o Options, join JoinOptions) error {
	return blameDisk(runAgent(ctx, o, join))
}

func runAgent(ctx context.Context, o Options, join JoinOptions) error {
	begin := time.Now()
	lock, err := lockData(ctx, &o)
	if err != nil {
		return err
	}
	defer lock.release()
	if err := recall(&o, &join); err != nil {
		return err
	}
	name, err := nodeName(&o)
	if err != nil {
		return err
	}
	server, err := url.Parse(join.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" {
		return fmt.Errorf("--server %q: must be https://HOST:PORT", join.Server)
	}
	given := o.NodeIPs
	if len(given) == 0 {
		if o.NodeIPs = agentIPs(&o); len(o.NodeIPs) == 0 {
			return errors.New("--node-ip is needed: this machine has no default route")
		}
	}
	joining, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("%s does not answer", join.Server))
	defer cancel()
	certs, err := pki.Join(joining, pki.JoinOptions{Server: join.Server, Token: join.Token, Node: name,
		IPs: netIPs(o.NodeIPs), Dir: filepath.Join(o.DataDir, "pki")})
	if err != nil {
		return err
	}
	cfg := &rest.Config{Host: join.Server, TLSClientConfig: rest.TLSClientConfig{
		CAData: certs.CAPEM, CertData: certs.Client.CertPEM, KeyData: certs.Client.KeyPEM}}
	ranges, err := askRanges(ctx, cfg)
	if err != nil {
		return err
	}
	o.ClusterCIDRs, o.ServiceCIDRs = ranges.Cluster, ranges.Service
	if len(given) == 0 {
		if o.NodeIPs = ofFamilies(o.NodeIPs, ranges.Cluster); len(o.NodeIPs) == 0 {
			return fmt.Errorf("--node-ip is needed: this machine has no default route of a family of the cluster's (%s)", ranges.Cluster)
		}
	}
	o.LoadBalancerPool = ranges.LoadBalancers
	if ranges.NoDNS {
		o.DNS = "none"
	}
	o.Nodes = "none" // which parts of the ranges it gets is not known yet
	state, err := openState(&o)
	if err != nil {
		return err
	}
	remotes := &remotes{cfg: cfg}
	defer remotes.close()
	c, err := remotes.dial(nodeIdentity(name))
	if err != nil {
		return err
	}
	if state.PodCIDRs, err = register(ctx, c, name, state.PodCIDRs); err != nil {
		return err
	}
	state.Node, state.NodeIPs, state.Server, state.PID = name, given, join.Server, os.Getpid()
	if err := state.save(); err != nil {
		return err
	}
	n, err := newNode(&o, state, name)
	if err != nil {
		return err
	}
	if o.Ready != nil {
		o.Ready(Info{URL: join.Server, Node: name, Took: time.Since(begin)})
	}
	serving, err := pki.NewRotating(func() (*pki.Pair, error) { return certs.Serving, nil })
	if err != nil {
		return err
	}
	p := newParts(ctx)
	gaps := &gapList{}
	err = startReporter(p, cfg, "agent", nodeIdentity(name).User, gaps, o.logger())
	if err == nil {
		err = n.run(p, remotes.dial, kubeletCerts{serving.GetCertificate, certs.Pool}, gaps)
	}
	if err != nil {
		p.cancel(err)
	}
	return p.wait(ctx)
}
