package proxy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/loop"
)

// checks answers load balancers on the health check ports of services whose
// external traffic stays on the node: 200 where there is an endpoint, 503 where
// there is none.
//
// https://kubernetes.io/docs/tasks/access-application-cluster/create-external-load-balancer/#preserving-the-client-source-ip
//
// It is for one goroutine.
type checks struct {
	// listen is where to answer: "tcp4", "tcp6", or "tcp" for both.
	listen string
	open   map[loop.Key]*check
}

// check is one port that answers.
type check struct {
	port     int32
	key      loop.Key
	here     atomic.Int32 // endpoints on this node
	listener net.Listener
}

// checkOf is the health check port of a service; 0: none.
func checkOf(o client.Object) int32 {
	svc, ok := o.(*corev1.Service)
	if !ok || svc.Spec.Type != corev1.ServiceTypeLoadBalancer || svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return 0
	}
	return svc.Spec.HealthCheckNodePort
}

// endpointsHere counts the ready endpoints of a service on this node. One that
// has addresses of both families is in slices of both and counts once: it is the
// family with more that tells how many there are.
func (p *Proxy) endpointsHere(key loop.Key) int {
	here := map[discoveryv1.AddressType]map[string]bool{}
	most := 0
	for _, s := range p.endpoints(key) {
		if !p.serves(s.AddressType) {
			continue
		}
		if here[s.AddressType] == nil {
			here[s.AddressType] = map[string]bool{}
		}
		for i := range s.Endpoints {
			if e := &s.Endpoints[i]; onNode(e, p.node) && (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
				here[s.AddressType][e.Addresses[0]] = true
			}
		}
		most = max(most, len(here[s.AddressType]))
	}
	return most
}

// serves tells whether slices of a type are of a family that is served.
func (p *Proxy) serves(t discoveryv1.AddressType) bool {
	return slices.ContainsFunc(p.host.Families(), func(f network.Family) bool { return f.AddressType() == t })
}

// set answers on a port for a service with so many endpoints here; on none for
// port 0.
func (c *checks) set(key loop.Key, port int32, here int) error {
	had := c.open[key]
	if had != nil && had.port != port {
		had.listener.Close()
		delete(c.open, key)
		had = nil
	}
	if port == 0 {
		return nil
	}
	if had == nil {
		l, err := net.Listen(c.listen, net.JoinHostPort("", strconv.Itoa(int(port))))
		if err != nil {
			return fmt.Errorf("answer health checks: %w", err)
		}
		had = &check{port: port, key: key, listener: l}
		srv := &http.Server{Handler: had, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second}
		go srv.Serve(l)
		if c.open == nil {
			c.open = map[loop.Key]*check{}
		}
		c.open[key] = had
	}
	had.here.Store(int32(here))
	return nil
}

// listens is the network that answers in families.
func listens(families []network.Family) string {
	if len(families) > 1 {
		return "tcp"
	}
	return "tcp" + strconv.Itoa(int(families[0]))
}

func (c *checks) close() {
	for _, one := range c.open {
		one.listener.Close()
	}
}

// ServeHTTP answers in the form of kube-proxy, which balancers know.
func (c *check) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	here := c.here.Load()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(int(here)))
	if here == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(map[string]any{
		"service":             map[string]string{"namespace": c.key.Namespace, "name": c.key.Name},
		"localEndpoints":      here,
		"serviceProxyHealthy": true,
	})
}
