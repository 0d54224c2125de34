package nodeproxy

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// split takes [SCHEME:]NAME[:PORT] apart.
func split(id string) (scheme, name, port string, ok bool) {
	switch parts := strings.Split(id, ":"); len(parts) {
	case 1:
		scheme, name = "", parts[0]
	case 2:
		name, port = parts[0], parts[1]
	case 3:
		scheme, name, port = parts[0], parts[1], parts[2]
	default:
		return "", "", "", false
	}
	if name == "" || scheme != "" && scheme != "http" && scheme != "https" {
		return "", "", "", false
	}
	return scheme, name, port, true
}

// rest is what follows .../proxy in the path, escaped as it came; empty when
// not even a slash does.
func rest(r *http.Request, a *authz.Attributes) string {
	segments := 5 // "", api, v1, nodes, NAME
	if a.Namespace != "" {
		segments = 7 // "", api, v1, namespaces, NAMESPACE, pods, NAME
	}
	parts := strings.SplitN(r.URL.EscapedPath(), "/", segments+2)
	if len(parts) < segments+2 {
		return ""
	}
	return "/" + parts[segments+1]
}

// to makes the URL of the far side.
func to(scheme, host string, r *http.Request, a *authz.Attributes) (*url.URL, error) {
	if scheme == "" {
		scheme = "http"
	}
	u, err := url.Parse(scheme + "://" + host + cmp.Or(rest(r, a), "/"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	u.RawQuery = r.URL.RawQuery
	return u, nil
}

func (p *Proxy) pod(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error {
	scheme, name, port, ok := split(a.Name)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", a.Name))
	}
	pod, err := get[*corev1.Pod](r.Context(), p, pods, a.Namespace, name)
	if err != nil {
		return err
	}
	if p.simulated(r.Context(), pod.Spec.NodeName) {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("pod %q runs on node %s, which is simulated: there is nothing to connect to", name, pod.Spec.NodeName))
	}
	if port == "" {
		for _, c := range pod.Spec.Containers {
			if len(c.Ports) > 0 {
				port = strconv.Itoa(int(c.Ports[0].ContainerPort))
				break
			}
		}
	}
	host, err := reachable(pod.Status.PodIP)
	if err != nil {
		return err
	}
	if port != "" {
		host = net.JoinHostPort(pod.Status.PodIP, port)
	}
	u, err := to(scheme, host, r, a)
	if err != nil {
		return err
	}
	if !toRoot(w, r, a) {
		forward(w, r, u, rewriting(p.direct, r, a), nil)
	}
	return nil
}

// simulated tells nodes whose pods have addresses that are nobody's, and may be
// a stranger's out there.
func (p *Proxy) simulated(ctx context.Context, node string) bool {
	if node == "" || p.cfg.Local == nil {
		return false
	}
	n, err := get[*corev1.Node](ctx, p, nodes, "", node)
	return err == nil && p.local(n) != nil
}

// reachable refuses addresses behind which the API server's own machine would
// be reached instead of a pod.
func reachable(ip string) (string, error) {
	addr := net.ParseIP(ip)
	if addr == nil || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsUnspecified() || addr.IsMulticast() {
		return "", apierrors.NewBadRequest("address not allowed")
	}
	if addr.To4() == nil {
		return "[" + ip + "]", nil
	}
	return ip, nil
}

func (p *Proxy) service(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error {
	scheme, name, port, ok := split(a.Name)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", a.Name))
	}
	svc, err := get[*corev1.Service](r.Context(), p, services, a.Namespace, name)
	if err != nil {
		return err
	}
	portName, err := servicePort(svc, port)
	if err != nil {
		return err
	}
	host, err := p.endpoint(r.Context(), svc, portName)
	if err != nil {
		return err
	}
	u, err := to(scheme, host, r, a)
	if err != nil {
		return err
	}
	if !toRoot(w, r, a) {
		forward(w, r, u, rewriting(p.direct, r, a), nil)
	}
	return nil
}

// servicePort finds the name of a port, which may be given by number.
func servicePort(svc *corev1.Service, port string) (string, error) {
	if port == "" && len(svc.Spec.Ports) > 0 {
		return svc.Spec.Ports[0].Name, nil
	}
	for _, sp := range svc.Spec.Ports {
		if sp.Name == port || strconv.Itoa(int(sp.Port)) == port {
			return sp.Name, nil
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %q found for service %q", port, svc.Name))
}

// endpoint chooses one of the ready endpoints of a port, never one of a
// simulated node.
func (p *Proxy) endpoint(ctx context.Context, svc *corev1.Service, portName string) (string, error) {
	list, err := p.cfg.List(ctx, endpointSlices, svc.Namespace)
	if err != nil {
		return "", err
	}
	type endpoint struct{ host, node string }
	var ready []endpoint
	for _, obj := range list {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] != svc.Name || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, sp := range slice.Ports {
			if sp.Port == nil || (sp.Name == nil && portName != "") || (sp.Name != nil && *sp.Name != portName) {
				continue
			}
			for _, e := range slice.Endpoints {
				if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
					ready = append(ready, endpoint{net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*sp.Port))), ptr.Deref(e.NodeName, "")})
				}
			}
		}
	}
	if len(ready) == 0 {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", svc.Name))
	}
	for _, i := range rand.Perm(len(ready)) {
		if p.simulated(ctx, ready[i].node) {
			continue
		}
		ip, _, _ := net.SplitHostPort(ready[i].host)
		if _, err := reachable(ip); err != nil {
			return "", err
		}
		return ready[i].host, nil
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("all endpoints of service %q are pods on simulated nodes: there is nothing to connect to", svc.Name))
}

// node reaches a node's kubelet, or another port of the node.
func (p *Proxy) node(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error {
	scheme, name, port, ok := split(a.Name)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q", a.Name))
	}
	node, err := get[*corev1.Node](r.Context(), p, nodes, "", name)
	if err != nil {
		return err
	}
	kubelet := kubeletURL(node, "/", nil)
	if port == "" || port == kubelet.Port() {
		u, err := to("https", kubelet.Host, r, a)
		if err != nil {
			return err
		}
		if local := p.local(node); local != nil {
			r = r.Clone(r.Context())
			r.URL = u
			local.ServeHTTP(w, r)
			return nil
		}
		forward(w, r, u, p.kubelets, nil)
		return nil
	}
	u, err := to(scheme, net.JoinHostPort(name, port), r, a)
	if err != nil {
		return err
	}
	// Not a kubelet: it gets no certificate to see.
	other := p.direct.Clone()
	other.DialContext = p.dialNode
	defer other.CloseIdleConnections()
	forward(w, r, u, other, nil)
	return nil
}
