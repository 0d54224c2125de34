// Package wire is what the node tells its DNS server, and the little that the
// server says back: lines of JSON over a Unix socket.
//
//	node                              DNS server (cmd/dns)
//	  <- Status                       who it is
//	  -> Message{Config}              a new picture begins; the old one serves on
//	  -> Message{Service}, ...        one for each service and namespace
//	  -> Message{Synced}              the new picture takes the old one's place
//	  -> Message{Service}, {Gone}     changes, as they come
//	  <- Status                       whenever something of it changed
//
// The server keeps its last picture when the node goes away, whatever the
// reason: names are answered while Setpoint is down. It knows nothing of the
// API; its picture costs what the names cost.
package wire

import "net/netip"

// Message is what a node says. One field is set.
type Message struct {
	Config    *Config  `json:"config,omitempty"`
	Service   *Service `json:"service,omitempty"`
	Gone      string   `json:"gone,omitempty"`      // a service, by namespace and name: "default/web"
	Namespace string   `json:"namespace,omitempty"` // is there
	NoMore    string   `json:"noMore,omitempty"`    // a namespace that is gone
	Synced    bool     `json:"synced,omitempty"`
}

// Config is what holds for all names.
type Config struct {
	Domain string         `json:"domain"` // "cluster.local"
	Ranges []netip.Prefix `json:"ranges"` // whose reverse names are the cluster's: services and pods
	// ServiceIPs are the addresses by which pods reach the server: one of each
	// family that the cluster has.
	ServiceIPs []netip.Addr `json:"serviceIPs"`
	// ResolvConf names the resolvers for all other names; "" is none.
	ResolvConf string `json:"resolvConf,omitempty"`
}

// Service is what the names of a Service follow from.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// IPs are the cluster IPs; a headless service has Endpoints instead, and an
	// external one a Target.
	IPs       []netip.Addr `json:"ips,omitempty"`
	Ports     []Port       `json:"ports,omitempty"` // of the IPs; those with a name
	Endpoints []Endpoint   `json:"endpoints,omitempty"`
	Target    string       `json:"target,omitempty"`
}

// Key names the service as Message.Gone does.
func (s *Service) Key() string { return s.Namespace + "/" + s.Name }

// Port is a port with a name.
type Port struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"` // "tcp"
	Number   uint16 `json:"number"`
}

// Endpoint is a ready one of a headless service.
type Endpoint struct {
	IP netip.Addr `json:"ip"`
	// Hostname is what its name begins with; "": one is made from the address.
	Hostname string `json:"hostname,omitempty"`
	Ports    []Port `json:"ports,omitempty"`
}

// Status is what the server says.
type Status struct {
	// Program is the path of the server's program; another one than the node
	// carries is to be replaced.
	Program string `json:"program"`
	// At is where the server answers; one that answers elsewhere than the node
	// wants is to be replaced, too.
	At []netip.AddrPort `json:"at,omitempty"`
	// Looping are resolvers that lead back to this server; they are not asked.
	Looping []string `json:"looping,omitempty"`
}
