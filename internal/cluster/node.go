package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/containerd"
	"github.com/setpoint-project/setpoint/internal/kubelet"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/proxy"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// node is this machine as a node: network, container runtime, kubelet and
// service proxy.
type node struct {
	opts  *Options
	state *State
	name  string
	host  *network.Host
	ips   Addresses // that of the cluster's primary family first
	log   *slog.Logger
}

// nodeName is the flag's, or what the data folder remembers: under another
// name the pods that run here would be nobody's. At the first start it is the
// host name in the form that a Node's name must have.
func nodeName(o *Options) (string, error) {
	if o.NodeName != "" {
		return o.NodeName, nil
	}
	s, err := LoadState(o.DataDir)
	if err == nil && s.Node != "" {
		return s.Node, nil
	}
	if err != nil && !errors.Is(err, ErrNoCluster) {
		return "", err
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("--node-name is needed: %w", err)
	}
	return strings.ToLower(strings.TrimSpace(name)), nil
}

// checkNodeIPs refuses an address that the flag says and no interface of this
// machine has, before it is remembered: nothing could listen there. Those of
// own, the parts of the pod ranges that this node has, come with its bridge.
func checkNodeIPs(ips Addresses, own Prefixes) error {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, ip := range ips {
		here := slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(ip) }) || slices.ContainsFunc(addrs, func(a net.Addr) bool {
			p, err := netip.ParsePrefix(a.String())
			return err == nil && p.Addr().Unmap() == ip.Unmap()
		})
		if !here {
			return fmt.Errorf("--node-ip %s: no interface of this machine has that address", ip)
		}
	}
	return nil
}

// primaryFirst puts the address of the cluster's primary family first.
func primaryFirst(ips Addresses, cluster Prefixes) Addresses {
	ips = slices.Clone(ips)
	slices.SortStableFunc(ips, func(a, b netip.Addr) int {
		switch primary := cluster.Primary().Addr().Is6(); {
		case a.Is6() == b.Is6():
			return 0
		case a.Is6() == primary:
			return -1
		}
		return 1
	})
	return ips
}

func netIPs(ips Addresses) (out []net.IP) {
	for _, ip := range ips {
		out = append(out, net.IP(ip.AsSlice()))
	}
	return out
}

// rememberNodeIPs keeps what the flag says, for starts without it. It does not
// save.
func rememberNodeIPs(o *Options, s *State) {
	if len(o.NodeIPs) > 0 {
		s.NodeIPs = o.NodeIPs
	}
	o.NodeIPs = s.NodeIPs
}

// newNode raises the network of this machine, with the part of the pod range
// that the state names.
func newNode(o *Options, s *State, name string) (*node, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a node of this machine needs root: run it as root, or with --nodes sim=3 or --nodes none")
	}
	n := &node{opts: o, state: s, name: name, ips: primaryFirst(o.NodeIPs, s.ClusterCIDRs), log: o.logger()}
	n.host = &network.Host{Config: network.Config{Instance: s.Instance, ClusterCIDRs: s.ClusterCIDRs, ServiceCIDRs: s.ServiceCIDRs, PodCIDRs: s.PodCIDRs}}
	if err := rangesFree(n.host.Config); err != nil {
		return nil, fmt.Errorf("%w. Take that cluster or network down, or start over with --cluster-cidr and --service-cidr after `setpoint down --purge`", err)
	}
	if err := n.host.Up(); err != nil {
		return nil, err
	}
	if len(n.ips) == 0 {
		n.ips = n.host.Gateways()
	}
	return n, n.host.WriteCNIConf(n.cniConf(), filepath.Join(o.DataDir, "cni"))
}

// register makes the Node, or finds it, and returns its parts of the pod ranges:
// podCIDRs when there are any, else what the loop that gives parts out decides.
func register(ctx context.Context, c client.Interface, name string, podCIDRs Prefixes) (Prefixes, error) {
	want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH}}}
	for _, p := range podCIDRs {
		want.Spec.PodCIDRs = append(want.Spec.PodCIDRs, p.String())
	}
	if len(podCIDRs) > 0 {
		want.Spec.PodCIDR = want.Spec.PodCIDRs[0]
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		node, err := client.Get[*corev1.Node](ctx, c, client.Nodes, "", name)
		if apierrors.IsNotFound(err) {
			node, err = client.Create(ctx, c, client.Nodes, want)
		}
		switch {
		case err == nil && node.Spec.PodCIDR != "":
			var have Prefixes
			err := have.Set(strings.Join(node.Spec.PodCIDRs, ","))
			if err == nil && len(podCIDRs) > 0 && !slices.Equal(have, podCIDRs) {
				err = fmt.Errorf("node %s has the pod range %s, but this machine's network was set up for %s: delete the Node, or `setpoint down` and start again", name, have, podCIDRs)
			}
			return have, err
		case err != nil && !apierrors.IsAlreadyExists(err) && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)):
			return nil, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (n *node) cniConf() string { return filepath.Join(n.opts.DataDir, "cni", "net.d") }

// cgroupParent is the cgroup of all pods of the cluster on this machine.
func cgroupParent(instance string) string { return "/setpoint-" + instance }

// supervisor of the carried runtime.
func newSupervisor(o *Options, s *State) (*containerd.Supervisor, error) {
	return containerd.New(containerd.Options{DataDir: o.DataDir, Instance: s.Instance,
		CNIConfDir: filepath.Join(o.DataDir, "cni", "net.d"), CgroupParent: cgroupParent(s.Instance), Logger: o.logger()})
}

// nodeIdentity is that of the kubelet and all else that runs on a node.
func nodeIdentity(name string) client.Identity {
	return client.Identity{User: pki.NodeUserPrefix + name, Groups: []string{pki.NodesGroup}, UserAgent: "setpoint-node"}
}

// run runs the node until p's context ends.
func (n *node) run(p *parts, dial connect, certs kubeletCerts, gaps *gapList) error {
	kc, err := dial(nodeIdentity(n.name))
	if err != nil {
		return err
	}
	endpoint := n.opts.RuntimeEndpoint
	ready := make(chan struct{})
	if endpoint == "" {
		supervisor, err := newSupervisor(n.opts, n.state)
		if err != nil {
			return err
		}
		endpoint = supervisor.Endpoint()
		p.run("container runtime", supervisor.Run)
		p.run("container runtime", func(ctx context.Context) error {
			select {
			case <-supervisor.Ready():
				close(ready)
			case <-ctx.Done():
			}
			return nil
		})
	} else {
		close(ready)
	}

	serviceProxy := proxy.New(n.host, n.name, kc, n.log)
	routes := network.NewNodeRoutes(n.host, n.name, kc, n.log)
	gaps.add(serviceProxy)
	gaps.add(routes)
	if n.opts.DNS != "none" {
		n.runDNS(p, kc, gaps)
	}
	n.runPolicies(p, kc, gaps)
	if err := n.runAnnounce(p, kc, gaps); err != nil {
		return err
	}
	p.run("service proxy", serviceProxy.Run)
	p.run("node routes", routes.Run)
	if err := startVolumes(p, kc, n.name, n.opts.DataDir, gaps, n.log); err != nil {
		return err
	}
	p.run("kubelet", func(ctx context.Context) error {
		if _, err := register(ctx, kc, n.name, n.state.PodCIDRs); err != nil {
			return err
		}
		k, err := kubelet.New(kubelet.Options{
			NodeName: n.name, Client: kc, RuntimeEndpoint: endpoint,
			RootDir: filepath.Join(n.opts.DataDir, "kubelet"), PodLogsDir: filepath.Join(n.opts.DataDir, "logs", "pods"),
			NodeIPs: n.ips, ServingTLS: certs.serving, ClientCA: certs.clients, ClusterDomain: clusterDomain, ClusterDNS: clusterDNS(n.state.ServiceCIDRs),
			CgroupParent: cgroupParent(n.state.Instance), Owner: n.state.Instance, Logger: n.log, Ready: ready,
		})
		if err != nil {
			return err
		}
		gaps.add(k)
		return k.Run(ctx)
	})
	return nil
}

// kubeletCerts is what a kubelet serves with, and whose clients it knows.
type kubeletCerts struct {
	serving func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	clients *x509.CertPool
}
