package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubeconfig"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// RunServer runs the API server and its store alone.
func RunServer(ctx context.Context, o Options) error {
	begin := time.Now()
	c, err := openCluster(&o)
	if err != nil {
		return err
	}
	defer c.close()
	p := newParts(ctx)
	if err := c.start(p, begin); err != nil {
		p.cancel(err)
	}
	return p.wait(ctx)
}

// RunControllers runs every loop but the scheduler over the network.
func RunControllers(ctx context.Context, o Options, kubeconfigFile string) error {
	return runAlone(ctx, kubeconfigFile, func(p *parts, cfg *rest.Config, dial connect) error {
		ranges, err := askRanges(ctx, cfg)
		if err != nil {
			return err
		}
		return startLoops(p, dial, ranges, cfg.CAData, &gapList{}, o.logger())
	})
}

// RunScheduler runs the scheduler over the network.
func RunScheduler(ctx context.Context, o Options, kubeconfigFile string) error {
	return runAlone(ctx, kubeconfigFile, func(p *parts, _ *rest.Config, dial connect) error {
		return startScheduler(p, dial, &gapList{}, o.logger())
	})
}

// RunSimulated runs n simulated nodes over the network.
func RunSimulated(ctx context.Context, o Options, kubeconfigFile string, n int) error {
	return runAlone(ctx, kubeconfigFile, func(p *parts, _ *rest.Config, dial connect) error {
		return startSimulated(p, dial, n, &gapList{}, o.logger())
	})
}

func runAlone(ctx context.Context, kubeconfigFile string, start func(*parts, *rest.Config, connect) error) error {
	cfg, err := kubeconfig.Load(kubeconfigFile)
	if err != nil {
		return err
	}
	p := newParts(ctx)
	remotes := &remotes{cfg: cfg}
	defer remotes.close()
	if err := start(p, cfg, remotes.dial); err != nil {
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
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+RangesPath, nil)
		if err != nil {
			return ranges, err
		}
		res, err := c.Do(req)
		if err == nil {
			err = json.NewDecoder(res.Body).Decode(&ranges)
			res.Body.Close()
			switch {
			case res.StatusCode >= 400 && res.StatusCode < 500:
				return ranges, fmt.Errorf("%s%s: %s", cfg.Host, RangesPath, res.Status)
			case res.StatusCode == http.StatusOK && err == nil:
				return ranges, nil
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ranges, errors.Join(context.Cause(ctx), err)
		}
	}
}

// JoinOptions say which cluster an agent joins.
type JoinOptions struct {
	Server string // https://HOST:PORT
	Token  string // needed the first time
}

// RunAgent makes this machine a node of a cluster elsewhere.
func RunAgent(ctx context.Context, o Options, join JoinOptions) error {
	name, err := nodeName(&o)
	if err != nil {
		return err
	}
	server, err := url.Parse(join.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" {
		return fmt.Errorf("--server %q: must be https://HOST:PORT", join.Server)
	}
	if !o.NodeIP.IsValid() {
		if o.NodeIP = network.DefaultAddress(); !o.NodeIP.IsValid() {
			return errors.New("--node-ip is needed: this machine has no default route")
		}
	}
	certs, err := pki.Join(ctx, pki.JoinOptions{Server: join.Server, Token: join.Token, Node: name,
		IPs: []net.IP{net.IP(o.NodeIP.AsSlice())}, Dir: filepath.Join(o.DataDir, "pki")})
	if err != nil {
		return err
	}
	cfg := &rest.Config{Host: join.Server, TLSClientConfig: rest.TLSClientConfig{
		CAData: certs.CAPEM, CertData: certs.Client.CertPEM, KeyData: certs.Client.KeyPEM}}
	ranges, err := askRanges(ctx, cfg)
	if err != nil {
		return err
	}
	o.ClusterCIDR, o.ServiceCIDR = ranges.Cluster, ranges.Service
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
	if state.PodCIDR, err = register(ctx, c, name, state.PodCIDR); err != nil {
		return err
	}
	state.Node = name
	if err := state.save(); err != nil {
		return err
	}
	n, err := newNode(&o, state, name)
	if err != nil {
		return err
	}
	serving, err := pki.NewRotating(func() (*pki.Pair, error) { return certs.Serving, nil })
	if err != nil {
		return err
	}
	p := newParts(ctx)
	if err := n.run(p, remotes.dial, kubeletCerts{serving.GetCertificate, certs.Pool}, &gapList{}); err != nil {
		p.cancel(err)
	}
	return p.wait(ctx)
}
