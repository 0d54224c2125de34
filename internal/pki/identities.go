package pki

import (
	"crypto/tls"
	"net"
	"slices"
)

// The names of the cluster's own identities, as upstream has them.
const (
	ControllerManagerUser = "system:kube-controller-manager"
	SchedulerUser         = "system:kube-scheduler"
	ProxyUser             = "system:kube-proxy"
	NodeUserPrefix        = "system:node:"
	NodesGroup            = "system:nodes"
	MastersGroup          = "system:masters"
	KubeletClientUser     = "kube-apiserver-kubelet-client"
)

// Admin may do everything.
func (a *Authority) Admin() (*Pair, error) {
	return a.client("admin", "kubernetes-admin", MastersGroup)
}

// ControllerManager is the identity of the controllers.
func (a *Authority) ControllerManager() (*Pair, error) {
	return a.client("kube-controller-manager", ControllerManagerUser)
}

// Scheduler is the identity of the scheduler.
func (a *Authority) Scheduler() (*Pair, error) {
	return a.client("kube-scheduler", SchedulerUser)
}

// Proxy is the identity of what serves cluster IPs.
func (a *Authority) Proxy() (*Pair, error) {
	return a.client("kube-proxy", ProxyUser)
}

// KubeletClient is whom the API server is to kubelets.
func (a *Authority) KubeletClient() (*Pair, error) {
	return a.client("apiserver-kubelet-client", KubeletClientUser, MastersGroup)
}

// Node is the identity of a node's kubelet.
func (a *Authority) Node(name string) (*Pair, error) {
	return a.client("node-"+name, NodeUserPrefix+name, NodesGroup)
}

func (a *Authority) client(file, user string, groups ...string) (*Pair, error) {
	return a.Leaf(file, Profile{CommonName: user, Organizations: groups, Client: true})
}

// KubeletServing is what the kubelet of a node serves with.
func (a *Authority) KubeletServing(node string, ips []net.IP) (*Pair, error) {
	return a.Leaf("kubelet-"+node, kubeletProfile(node, ips))
}

func kubeletProfile(node string, ips []net.IP) Profile {
	return Profile{
		CommonName:    NodeUserPrefix + node,
		Organizations: []string{NodesGroup},
		DNSNames:      []string{node},
		IPs:           ips,
		Server:        true,
	}
}

// APIServer is what the API server serves with. Names and addresses of this
// machine's loopback and the names that pods know are always in it; serviceIPs
// are the cluster IPs of the service default/kubernetes.
func (a *Authority) APIServer(serviceIPs []net.IP, clusterDomain string, extraNames []string, extraIPs []net.IP) (*Pair, error) {
	p := Profile{
		CommonName: "kube-apiserver",
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc." + clusterDomain,
		},
		IPs:    append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, serviceIPs...),
		Server: true,
	}
	for _, n := range extraNames {
		if !slices.Contains(p.DNSNames, n) {
			p.DNSNames = append(p.DNSNames, n)
		}
	}
	for _, ip := range extraIPs {
		if !slices.ContainsFunc(p.IPs, ip.Equal) {
			p.IPs = append(p.IPs, ip)
		}
	}
	return a.Leaf("apiserver", p)
}

// ServerTLS is how the API server listens: client certificates are asked for
// but not demanded, and checked by its authenticator, so that a bad one is
// answered with a readable 401 and not with a broken handshake.
func (a *Authority) ServerTLS(cert *Rotating) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: cert.GetCertificate,
		ClientAuth:     tls.RequestClientCert,
		ClientCAs:      a.pool,
	}
}

// ClientTLS is how one of the cluster's identities connects to a server of the
// same cluster.
func (a *Authority) ClientTLS(cert *Rotating) *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS12,
		RootCAs:              a.pool,
		GetClientCertificate: cert.GetClientCertificate,
	}
}
