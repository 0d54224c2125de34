package cluster

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	admissionconfig "github.com/setpoint-project/setpoint/internal/apiserver/admission/config"
)

// Options of a cluster or of a part of one. The zero value, with DataDir set,
// is a whole cluster on this machine.
type Options struct {
	// DataDir holds everything that the cluster keeps. Required; a cluster in
	// memory keeps its certificates and kubeconfigs there.
	DataDir string
	// Listen is HOST:PORT of the API server. Empty: what DataDir remembers,
	// else 127.0.0.1:6443, or the next free port.
	Listen string
	// Nodes is "host" (this machine), "none" or "sim=N".
	Nodes string
	// NodeName of this machine; empty: what DataDir remembers, else its host
	// name.
	NodeName string
	// NodeIPs are the addresses, one a family, by which the rest of the cluster
	// reaches this node. Empty: for Up the bridge's, which only this machine
	// reaches; for Agent those of the default routes.
	NodeIPs Addresses
	// Kubeconfig, when set, is a further place to write the administrator's
	// kubeconfig to.
	Kubeconfig string
	// RuntimeEndpoint of a CRI runtime ("unix:///run/containerd/containerd.sock");
	// empty: the binary's own.
	RuntimeEndpoint string
	// ClusterCIDRs and ServiceCIDRs are the ranges of pods and services, of the
	// same families. Only the first start looks at them; a later one may add a
	// second family. Empty: a free pair of IPv4.
	ClusterCIDRs, ServiceCIDRs Prefixes
	// DNS is "builtin" (each node answers the names of the cluster for its
	// pods), "none" (somebody else's service is at the conventional address) or
	// empty: what DataDir remembers, else builtin. Agents do as their server does.
	DNS string
	// LoadBalancerPool is "nodes", "none" or ranges of addresses that are neither
	// pods' nor services'; empty: what DataDir remembers, else nodes. See
	// loadbalancer.ParsePool. Agents do as their server does.
	LoadBalancerPool string
	// SchedulerConfig is a file with a KubeSchedulerConfiguration; empty: the
	// default profile.
	SchedulerConfig string
	// AdmissionConfig is a file with an AdmissionConfiguration; empty: plugins
	// are as they are by default.
	AdmissionConfig string
	// RequestLog is a file that gets one line of JSON for each request.
	RequestLog string
	// HistoryAge and HistoryRevisions bound the history that the store keeps;
	// zero: 10 minutes, 100,000 revisions.
	HistoryAge       time.Duration
	HistoryRevisions int64
	// InMemory keeps the store in memory only: every object is gone when it
	// stops.
	InMemory bool
	// Command says that the process is there for the cluster alone: Down may
	// end it.
	Command bool
	// Given is what to take from outside instead of making it.
	Given Given

	Logger *slog.Logger // nil: none
	// Tell, when not nil, is given a line for a person when a start has to wait.
	Tell func(string)
	// Ready, when not nil, is called once the API server answers or, for an
	// agent, once the Node is there.
	Ready func(Info)
}

// Info tells how to reach a cluster.
type Info struct {
	URL        string // https://127.0.0.1:6443
	Kubeconfig string // the administrator's; not for an agent
	Node       string // this machine's name, for an agent
	Took       time.Duration
}

// DefaultDataDir is where a cluster lives unless told otherwise.
func DefaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/setpoint"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "setpoint")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "setpoint-data"
	}
	return filepath.Join(home, ".local", "share", "setpoint")
}

// nodes is what Options.Nodes asks for.
type nodes struct {
	host bool
	sim  int
}

func parseNodes(s string) (nodes, error) {
	switch {
	case s == "" || s == "host":
		return nodes{host: true}, nil
	case s == "none":
		return nodes{}, nil
	case strings.HasPrefix(s, "sim="):
		n, err := strconv.Atoi(s[len("sim="):])
		if err == nil && n >= 0 && n <= 20000 {
			return nodes{sim: n}, nil
		}
	}
	return nodes{}, fmt.Errorf("--nodes %q: must be host, none or sim=N with N from 0 to 20000", s)
}

// Validate says what is wrong with the options, by the flag's name.
func (o *Options) Validate() error {
	if o.DataDir == "" {
		return fmt.Errorf("--data-dir: must not be empty")
	}
	if _, err := parseNodes(o.Nodes); err != nil {
		return err
	}
	if o.Listen != "" {
		host, port, err := net.SplitHostPort(o.Listen)
		if err != nil {
			return fmt.Errorf("--listen %q: must be HOST:PORT: %w", o.Listen, err)
		}
		if _, err := netip.ParseAddr(host); err != nil && host != "" && host != "localhost" {
			return fmt.Errorf("--listen %q: the host must be an IP address", o.Listen)
		}
		if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
			return fmt.Errorf("--listen %q: the port must be a number from 0 to 65535", o.Listen)
		}
	}
	if o.RuntimeEndpoint != "" && !strings.HasPrefix(o.RuntimeEndpoint, "unix://") {
		return fmt.Errorf("--container-runtime-endpoint %q: must begin with unix://", o.RuntimeEndpoint)
	}
	if o.DNS != "" && o.DNS != "builtin" && o.DNS != "none" {
		return fmt.Errorf("--dns %q: must be builtin or none", o.DNS)
	}
	if err := validatePool(o.LoadBalancerPool, o.ClusterCIDRs, o.ServiceCIDRs); err != nil {
		return err
	}
	if _, _, err := o.scheduling(); err != nil {
		return err
	}
	if _, err := o.admission(); err != nil {
		return err
	}
	if o.NodeName != "" {
		if err := validateNodeName(o.NodeName); err != nil {
			return err
		}
	}
	if err := validateNodeIPs(o.NodeIPs); err != nil {
		return err
	}
	return validateRanges(o.ClusterCIDRs, o.ServiceCIDRs)
}

// admission reads the configuration file of admission plugins, if there is one.
func (o *Options) admission() (admissionconfig.Plugins, error) {
	if o.AdmissionConfig == "" {
		return admissionconfig.Plugins{}, nil
	}
	plugins, err := admissionconfig.ReadFile(o.AdmissionConfig)
	if err != nil {
		return plugins, fmt.Errorf("--admission-control-config-file: %w", err)
	}
	return plugins, nil
}

func (o *Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}
