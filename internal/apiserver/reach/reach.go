// Package reach finds where the API server reaches a service: for webhooks and
// for the servers of APIServices.
//
//	resolver := &reach.Resolver{Get: get, List: list, Fenced: network.Fenced, Simulated: simnode.Simulated}
//	conn, err := resolver.DialService(ctx, "tcp", "default", "hook", 443)
//	conn, err := resolver.Dial(ctx, "tcp", "hook.example.com:443")
//
// It is the service's own address where this machine leads it to the endpoints,
// else that of one of the endpoints, as upstream has both
// (--enable-aggregator-routing). An address of the cluster to which this machine
// has no way, as beside simulated nodes, is never returned, nor dialled, whatever
// it was called (the name or the URL that a user gave): who did would send what is
// the cluster's to whoever has that address out there.
//
// Concurrency: a Resolver may be used from many goroutines.
//
// Failure: an error says what is missing; it is tried again by who asks again.
//
// Testing: pure but for what it is given.
package reach

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Resolver finds where services are reached.
type Resolver struct {
	Get func(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error)
	// List, of EndpointSlices, may be nil where Fenced is.
	List func(ctx context.Context, res client.Resource, namespace string) ([]client.Object, error)
	// Fenced tells whether packets to an address of the cluster stay in the
	// cluster from here; nil: all do.
	Fenced func(netip.Addr) bool
	// Ours tells the addresses of the cluster's services and pods from those of
	// the world; nil: none is.
	Ours func(netip.Addr) bool
	// Simulated tells the nodes whose pods have addresses that are nobody's;
	// nil: none is.
	Simulated func(*corev1.Node) bool
}

// dialTimeout is how long it may take until somebody answers at an address.
const dialTimeout = 10 * time.Second

// ErrNoEndpoints is in the error when a service has no endpoint that can be
// reached.
var ErrNoEndpoints = errors.New("no endpoints available")

var (
	endpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	nodes          = corev1.SchemeGroupVersion.WithResource("nodes")
)

// Address is HOST:PORT by which a port of a service is reached.
func (r *Resolver) Address(ctx context.Context, namespace, name string, port int32) (string, error) {
	obj, err := r.Get(ctx, client.Services, namespace, name)
	if err != nil {
		return "", err
	}
	svc := obj.(*corev1.Service)
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return join(svc.Spec.ExternalName, port), nil
	}
	if svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return "", fmt.Errorf("service %s/%s has no cluster IP", namespace, name)
	}
	var of *corev1.ServicePort
	for i := range svc.Spec.Ports {
		if svc.Spec.Ports[i].Port == port {
			of = &svc.Spec.Ports[i]
			break
		}
	}
	if of == nil {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, name))
	}
	ip, err := netip.ParseAddr(svc.Spec.ClusterIP)
	if err != nil {
		return "", fmt.Errorf("service %s/%s: %w", namespace, name, err)
	}
	if r.Fenced == nil || r.Fenced(ip) {
		return join(svc.Spec.ClusterIP, port), nil
	}
	return r.endpoint(ctx, svc, of.Name)
}

// DialService connects to a port of a service.
func (r *Resolver) DialService(ctx context.Context, network, namespace, name string, port int32) (net.Conn, error) {
	address, err := r.Address(ctx, namespace, name, port)
	if err != nil {
		return nil, err
	}
	return r.Dial(ctx, network, address)
}

// Dial connects to HOST:PORT, unless HOST is, or its name says that it is, in the
// cluster where this machine does not get to.
func (r *Resolver) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err == nil && !r.safe(at.Addr().Unmap().WithZone("")) {
			return fmt.Errorf("%v is an address of the cluster, which this machine, no node of it, cannot reach", at.Addr())
		}
		return err
	}}
	return d.DialContext(ctx, network, address)
}

func join(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

// safe tells whether a packet to an endpoint gets to whom it is meant for, or
// nowhere.
func (r *Resolver) safe(ip netip.Addr) bool {
	return r.Ours == nil || !r.Ours(ip) || r.Fenced == nil || r.Fenced(ip)
}

// endpoint chooses one of the ready endpoints of a port.
func (r *Resolver) endpoint(ctx context.Context, svc *corev1.Service, portName string) (string, error) {
	list, err := r.List(ctx, endpointSlices, svc.Namespace)
	if err != nil {
		return "", err
	}
	var found []string
	simulated, far := false, false
	for _, obj := range list {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] != svc.Name || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, p := range slice.Ports {
			if p.Port == nil || ptr.Deref(p.Name, "") != portName {
				continue
			}
			for i := range slice.Endpoints {
				e := &slice.Endpoints[i]
				if len(e.Addresses) == 0 || !ptr.Deref(e.Conditions.Ready, true) {
					continue
				}
				ip, err := netip.ParseAddr(e.Addresses[0])
				switch {
				case err != nil:
				case r.nobody(ctx, ptr.Deref(e.NodeName, "")):
					simulated = true
				case !r.safe(ip):
					far = true
				default:
					found = append(found, join(e.Addresses[0], *p.Port))
				}
			}
		}
	}
	what := fmt.Sprintf("service %s/%s cannot be reached by its cluster IP from this machine, which is no node of the cluster", svc.Namespace, svc.Name)
	switch {
	case len(found) > 0:
		return found[rand.IntN(len(found))], nil
	case far:
		return "", fmt.Errorf("%w: %s, nor can its pods", ErrNoEndpoints, what)
	case simulated:
		return "", fmt.Errorf("%w: %s, and its pods run on simulated nodes: there is nothing to connect to", ErrNoEndpoints, what)
	}
	return "", fmt.Errorf("%w: %s, and has no ready endpoints", ErrNoEndpoints, what)
}

// nobody tells whether a node's pods are simulated.
func (r *Resolver) nobody(ctx context.Context, node string) bool {
	if node == "" || r.Simulated == nil {
		return false
	}
	obj, err := r.Get(ctx, nodes, "", node)
	if err != nil {
		return false
	}
	n, ok := obj.(*corev1.Node)
	return ok && r.Simulated(n)
}
