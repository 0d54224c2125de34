package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/networktest"
	"github.com/setpoint-project/setpoint/loop"
)

// TestChecks: a balancer is answered in both families, and an endpoint that has
// addresses of both counts once.
func TestChecks(t *testing.T) {
	c := newCluster(t)
	both := networktest.Text(network.IPv6, "10.42.0.2")
	c.serve("web", "10.43.0.10", "10.42.0.2", both)
	const port = 32100
	svc, err := client.Get[*corev1.Service](t.Context(), c.client, client.Services, "default", "web")
	c.Must(err)
	svc = svc.DeepCopy()
	no := false
	svc.Spec.Type, svc.Spec.ExternalTrafficPolicy, svc.Spec.HealthCheckNodePort = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal, port
	svc.Spec.AllocateLoadBalancerNodePorts = &no
	_, err = c.client.Update(t.Context(), client.Services, svc)
	c.Must(err)
	key := loop.Key{Namespace: "default", Name: "web"}
	t.Cleanup(func() { c.proxy.checks.close() })

	answered := func(status, endpoints int) {
		t.Helper()
		c.turn(key)
		for _, f := range []network.Family{network.IPv4, network.IPv6} {
			conn, err := net.DialTimeout("tcp", networktest.Text(f, fmt.Sprint("10.42.0.1:", port)), patience)
			c.Must(err)
			defer conn.Close()
			fmt.Fprint(conn, "GET /healthz HTTP/1.0\r\n\r\n")
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			c.Must(err)
			var said struct{ LocalEndpoints int }
			c.Must(json.NewDecoder(res.Body).Decode(&said))
			if res.StatusCode != status || said.LocalEndpoints != endpoints {
				t.Errorf("%s: %d with %d endpoints, want %d with %d", f, res.StatusCode, said.LocalEndpoints, status, endpoints)
			}
		}
	}
	answered(http.StatusOK, 1)
	more := as(t, network.IPv6, slice(endpoint("10.42.0.3", "n1", true, true, false), endpoint("10.42.1.3", "n2", true, true, false)))
	more.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "more", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}
	_, err = client.Create(t.Context(), c.client, client.EndpointSlices, more)
	c.Must(err)
	answered(http.StatusOK, 2)
	list, _, err := c.client.List(t.Context(), client.EndpointSlices, "default", metav1.ListOptions{})
	c.Must(err)
	for _, s := range list {
		c.Must(c.client.Delete(t.Context(), client.EndpointSlices, "default", s.GetName(), metav1.DeleteOptions{}))
	}
	answered(http.StatusServiceUnavailable, 0)
}
