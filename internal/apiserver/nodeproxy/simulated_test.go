package nodeproxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSimulated: nobody has the addresses of pods on simulated nodes, so they
// are not tried; of a service's endpoints a real one is taken, where there is
// one.
func TestSimulated(t *testing.T) {
	f := newFixture(t)
	f.local = http.NotFoundHandler() // n1 is simulated
	pod := f.w["pods/web/x"].(*corev1.Pod)
	pod.Status.PodIP = "10.9.8.7"
	f.w["services/web/s"] = &corev1.Service{ObjectMeta: meta("web", "s"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	port, node := int32(8080), "n1"
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "s-1", Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
		AddressType: "IPv4", Ports: []discoveryv1.EndpointPort{{Port: &port}}}
	for i := range 20 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.9.8.%d", i)}, NodeName: &node})
	}
	f.w["endpointslices/web/s-1"] = slice
	for path, want := range map[string]string{
		"pods/x/proxy/a":           `pod \"x\" runs on node n1, which is simulated`,
		"pods/https:x:8443/proxy/": `pod \"x\" runs on node n1, which is simulated`,
		"services/s/proxy/":        `all endpoints of service \"s\" are pods on simulated nodes`,
		"services/s:80/proxy/b":    `all endpoints of service \"s\" are pods on simulated nodes`,
	} {
		if code, body := f.get(t, "/api/v1/namespaces/web/"+path); code != http.StatusServiceUnavailable || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want 503 and %s", path, code, body, want)
		}
	}
	// One that is of no node, or of a node that is gone, may be anything.
	gone := "n0"
	for _, name := range []*string{nil, &gone} {
		slice.Endpoints[13] = discoveryv1.Endpoint{Addresses: []string{"10.1.1.1"}, NodeName: name}
		for range 50 {
			if host, err := f.proxy.endpoint(t.Context(), f.w["services/web/s"].(*corev1.Service), ""); err != nil || host != "10.1.1.1:8080" {
				t.Fatalf("%s, %v", host, err)
			}
		}
	}
}
