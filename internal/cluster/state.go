package cluster

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// State is what a data folder remembers of its cluster from the first start
// on (DATA/cluster.json).
type State struct {
	// Instance tells clusters on one machine apart; it names the bridge, the
	// nftables table and the runtime's sockets.
	Instance     string   `json:"instance"`
	ClusterCIDRs Prefixes `json:"clusterCIDR"`
	ServiceCIDRs Prefixes `json:"serviceCIDR"`
	// Listen is where the API server listened last.
	Listen string `json:"listen,omitempty"`
	// Server is that of the cluster that this machine is an agent of; empty:
	// the cluster is the data folder's own.
	Server string `json:"server,omitempty"`
	// Node and PodCIDRs are this machine's, once it is a node. It has ranges of
	// the families that the cluster had when it became one.
	Node     string   `json:"node,omitempty"`
	PodCIDRs Prefixes `json:"podCIDR,omitempty"`
	// NodeIPs are what --node-ip said last.
	NodeIPs Addresses `json:"nodeIP,omitempty"`
	// DNS and LoadBalancers are what --dns and --load-balancer-pool said last.
	DNS           string `json:"dns,omitempty"`
	LoadBalancers string `json:"loadBalancers,omitempty"`
	// Storage says that the default storage class has been made.
	Storage bool `json:"storage,omitempty"`
	// PID of the process that runs the cluster; it may be long gone.
	PID int `json:"pid,omitempty"`

	path string
}

// ErrNoCluster says that a data folder holds no cluster.
var ErrNoCluster = errors.New("no cluster")

// LoadState reads what dir remembers.
func LoadState(dir string) (*State, error) {
	s := &State{path: filepath.Join(dir, "cluster.json")}
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: `setpoint up` starts one", ErrNoCluster, dir)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return s, nil
}

// openState reads what the data folder remembers, or decides it at first start.
func openState(o *Options) (*State, error) {
	s, err := LoadState(o.DataDir)
	switch {
	case err == nil && s.Server != "":
		return s, nil // an agent does as its server does
	case err == nil:
		if err := s.addFamily(o); err != nil {
			return nil, err
		}
		return s, s.rememberNetwork(o)
	case !errors.Is(err, ErrNoCluster):
		return nil, err
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, err
	}
	if s, err = newState(o); err != nil {
		return nil, err
	}
	if err := s.rememberNetwork(o); err != nil {
		return nil, err
	}
	if err := s.rangesFree(o); err != nil {
		return nil, err
	}
	return s, s.save()
}

// rememberNetwork keeps what --dns and --load-balancer-pool say, for starts
// without them: those would take names and addresses from what runs. A pool
// that is not free is refused. It does not save.
func (s *State) rememberNetwork(o *Options) error {
	o.DNS, o.LoadBalancerPool = cmp.Or(o.DNS, s.DNS, "builtin"), cmp.Or(o.LoadBalancerPool, s.LoadBalancers, "nodes")
	if err := validatePool(o.LoadBalancerPool, s.ClusterCIDRs, s.ServiceCIDRs); err != nil {
		return err
	}
	s.DNS, s.LoadBalancers = o.DNS, o.LoadBalancerPool
	return nil
}

// addFamily takes a second family of ranges that a later start names beside the
// first; no other change of ranges is possible, for addresses of them are in
// use. Nodes keep what they have: one that is to have pods of both families has
// to be made anew, as upstream's. It does not save.
func (s *State) addFamily(o *Options) error {
	if len(o.ClusterCIDRs) != 2 || len(s.ClusterCIDRs) != 1 ||
		o.ClusterCIDRs.Primary() != s.ClusterCIDRs.Primary() || o.ServiceCIDRs.Primary() != s.ServiceCIDRs.Primary() {
		if len(o.ClusterCIDRs) > 0 && (!slices.Equal(o.ClusterCIDRs, s.ClusterCIDRs) || !slices.Equal(o.ServiceCIDRs, s.ServiceCIDRs)) {
			o.logger().Warn("the cluster keeps the address ranges that it has; only a second family may be added to them",
				"cluster-cidr", s.ClusterCIDRs.String(), "service-cidr", s.ServiceCIDRs.String())
		}
		return nil
	}
	if err := validateRanges(o.ClusterCIDRs, o.ServiceCIDRs); err != nil {
		return err
	}
	next := *s
	next.ClusterCIDRs, next.ServiceCIDRs = o.ClusterCIDRs, o.ServiceCIDRs
	if err := next.rangesFree(o); err != nil {
		return err
	}
	*s = next
	return nil
}

// rangesFree refuses ranges that this machine, if it is to be a node, cannot
// serve, before they are remembered: what a cluster has it cannot get rid of.
func (s *State) rangesFree(o *Options) error {
	if want, err := parseNodes(o.Nodes); err != nil || !want.host {
		return err
	}
	c := network.Config{Instance: s.Instance, ClusterCIDRs: s.ClusterCIDRs, ServiceCIDRs: s.ServiceCIDRs, PodCIDRs: s.PodCIDRs}
	for _, p := range s.ClusterCIDRs[len(s.PodCIDRs):] {
		c.PodCIDRs = append(c.PodCIDRs[:len(c.PodCIDRs):len(c.PodCIDRs)], firstPart(p))
	}
	if err := rangesFree(c); err != nil {
		return fmt.Errorf("%w: name others by --cluster-cidr and --service-cidr", err)
	}
	return nil
}

func newState(o *Options) (*State, error) {
	s := &State{Instance: newInstance(), ClusterCIDRs: o.ClusterCIDRs, ServiceCIDRs: o.ServiceCIDRs, path: filepath.Join(o.DataDir, "cluster.json")}
	if len(s.ClusterCIDRs) == 0 {
		pods, services, err := network.FreeRanges()
		if err != nil {
			return nil, err
		}
		if want, err := parseNodes(o.Nodes); err == nil && want.sim > simulatedInDefault {
			pods = simulatedRange(want.sim, services)
		}
		s.ClusterCIDRs, s.ServiceCIDRs = Prefixes{pods}, Prefixes{services}
	}
	return s, nil
}

// simulatedInDefault is how many simulated nodes find room in a default range:
// each is given a /24 of a /16, but for those that are kept for other nodes, and
// a few may be added.
const simulatedInDefault = 200

// simulatedRange is a pod range with a /24 for each of n simulated nodes, and
// half as many to spare. It may be any that is not the services', for nothing
// of it is routed.
func simulatedRange(n int, services netip.Prefix) netip.Prefix {
	size := min(bits.Len(uint(n+n/2)), 15)
	for _, from := range []string{"10.128.0.0", "10.0.0.0"} {
		p := netip.PrefixFrom(netip.MustParseAddr(from), 24-size)
		if !p.Overlaps(services) {
			return p
		}
	}
	panic("the service range overlaps two ranges that lie apart")
}

// takeParts gives this machine the first part of each pod range, where it has
// none: as it becomes a node, and, of a family that the cluster came to later,
// once its Node has been deleted, for what a Node has does not change. A part
// that another node has stays that node's. The loop that gives parts out leaves
// each to whoever has it. It does not save.
func (s *State) takeParts(name string, nodes []client.Object) {
	isNode := len(s.PodCIDRs) > 0
	for _, p := range s.ClusterCIDRs[len(s.PodCIDRs):] {
		part := firstPart(p)
		if isNode && slices.ContainsFunc(nodes, func(o client.Object) bool {
			var parts Prefixes
			err := parts.Set(strings.Join(o.(*corev1.Node).Spec.PodCIDRs, ","))
			return o.GetName() == name || err == nil && slices.ContainsFunc(parts, part.Overlaps)
		}) {
			return
		}
		s.PodCIDRs = append(s.PodCIDRs, part)
	}
}

func newInstance() string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, 6)
	rand.Read(b)
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)]
	}
	return string(b)
}

func (s *State) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return pki.WriteFile(s.path, append(data, '\n'), 0o600, true)
}

// apiServiceIP is the cluster IP of the service default/kubernetes: the first
// of the primary range. As upstream, it has no address of the other family.
func (s *State) apiServiceIP() netip.Addr { return s.ServiceCIDRs.Primary().Masked().Addr().Next() }

// Ranges are the address ranges of a cluster and what else its parts must
// agree on, as the API server tells it to those elsewhere.
type Ranges struct {
	Cluster Prefixes `json:"clusterCIDR"`
	Service Prefixes `json:"serviceCIDR"`
	// Kept are the parts of the pod ranges that the server's own machine takes by
	// itself, when it is a node.
	Kept []netip.Prefix `json:"kept,omitempty"`
	// NoDNS says that nodes do not serve the cluster's names.
	NoDNS bool `json:"noDNS,omitempty"`
	// LoadBalancers is Options.LoadBalancerPool.
	LoadBalancers string `json:"loadBalancers,omitempty"`
}

// keptParts are the parts that this machine has, and those that it would take at
// a later start, of a family that it has none of yet.
func (s *State) keptParts() (kept []netip.Prefix) {
	if s.Server != "" || len(s.PodCIDRs) == 0 {
		return nil
	}
	kept = append(kept, s.PodCIDRs...)
	for _, p := range s.ClusterCIDRs {
		if !slices.ContainsFunc(s.PodCIDRs, func(q netip.Prefix) bool { return p.Addr().Is4() == q.Addr().Is4() }) {
			kept = append(kept, firstPart(p))
		}
	}
	return kept
}

func (c *controlPlane) ranges() Ranges {
	return Ranges{Kept: c.state.keptParts(), Cluster: c.state.ClusterCIDRs, Service: c.state.ServiceCIDRs, NoDNS: c.opts.DNS == "none", LoadBalancers: c.opts.LoadBalancerPool}
}

// gateways are the addresses of this machine's bridge, once it is a node.
func (s *State) gateways() []netip.Addr { return network.Config{PodCIDRs: s.PodCIDRs}.Gateways() }
