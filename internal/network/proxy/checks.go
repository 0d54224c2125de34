package proxy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// checks answers load balancers on the health check ports of services whose
// external traffic stays on the node: 200 where there is an endpoint, 503 where
// there is none.
//
// https://kubernetes.io/docs/tasks/access-application-cluster/create-external-load-balancer/#preserving-the-client-source-ip
//
// The zero value is ready. It is for one goroutine.
type checks struct {
	open map[loop.Key]*check
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

// endpointsHere counts the ready endpoints of a service on this node.
func (p *Proxy) endpointsHere(key loop.Key) int {
	here := map[string]bool{}
	for _, s := range p.endpoints(key) {
		if s.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		for i := range s.Endpoints {
			if e := &s.Endpoints[i]; onNode(e, p.node) && (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
				here[e.Addresses[0]] = true
			}
		}
	}
	return len(here)
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
		l, err := net.Listen("tcp4", net.JoinHostPort("", strconv.Itoa(int(port))))
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
