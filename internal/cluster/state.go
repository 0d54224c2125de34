package cluster

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// State is what a data folder remembers of its cluster from the first start
// on (DATA/cluster.json).
type State struct {
	// Instance tells clusters on one machine apart; it names the bridge, the
	// nftables table and the runtime's sockets.
	Instance    string       `json:"instance"`
	ClusterCIDR netip.Prefix `json:"clusterCIDR"`
	ServiceCIDR netip.Prefix `json:"serviceCIDR"`
	// Listen is where the API server listened last.
	Listen string `json:"listen,omitempty"`
	// Node and PodCIDR are this machine's, once it is a node.
	Node    string       `json:"node,omitempty"`
	PodCIDR netip.Prefix `json:"podCIDR,omitzero"`
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
	if o.DataDir == "" {
		return newState(o)
	}
	s, err := LoadState(o.DataDir)
	if !errors.Is(err, ErrNoCluster) {
		return s, err
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, err
	}
	if s, err = newState(o); err != nil {
		return nil, err
	}
	return s, s.save()
}

func newState(o *Options) (*State, error) {
	s := &State{Instance: newInstance(), ClusterCIDR: o.ClusterCIDR, ServiceCIDR: o.ServiceCIDR}
	if o.DataDir != "" {
		s.path = filepath.Join(o.DataDir, "cluster.json")
	}
	if !s.ClusterCIDR.IsValid() {
		var err error
		if s.ClusterCIDR, s.ServiceCIDR, err = network.FreeRanges(); err != nil {
			return nil, err
		}
	}
	return s, nil
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
	if s.path == "" {
		return nil
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return pki.WriteFile(s.path, append(data, '\n'), 0o600, true)
}

// apiServiceIP is the cluster IP of the service default/kubernetes: the first
// of the range.
func (s *State) apiServiceIP() netip.Addr { return s.ServiceCIDR.Masked().Addr().Next() }

// Ranges are the address ranges of a cluster, as the API server tells them to
// parts elsewhere.
type Ranges struct {
	Cluster netip.Prefix `json:"clusterCIDR"`
	Service netip.Prefix `json:"serviceCIDR"`
}

func (s *State) ranges() Ranges { return Ranges{s.ClusterCIDR, s.ServiceCIDR} }

// gateway is the address of this machine's bridge, once it is a node.
func (s *State) gateway() netip.Addr {
	if !s.PodCIDR.IsValid() {
		return netip.Addr{}
	}
	return network.Config{PodCIDR: s.PodCIDR}.Gateway()
}
