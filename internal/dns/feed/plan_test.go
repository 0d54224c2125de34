package feed

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/dns/wire"
)

func ptr[T any](v T) *T { return &v }

func TestPlan(t *testing.T) {
	ip := netip.MustParseAddr
	service := func(spec corev1.ServiceSpec) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}, Spec: spec}
	}
	sql := []discoveryv1.EndpointPort{{Name: ptr("sql"), Port: ptr(int32(5432))}, {Name: ptr("")}, {Name: ptr("any")}}
	slice := func(list ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: sql, Endpoints: list}
	}
	endpoint := func(addr, host string, ready *bool) discoveryv1.Endpoint {
		e := discoveryv1.Endpoint{Addresses: []string{addr}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
		if host != "" {
			e.Hostname = &host
		}
		return e
	}
	port := []wire.Port{{Name: "sql", Protocol: "tcp", Number: 5432}}
	headless := corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}}
	for name, c := range map[string]struct {
		svc    *corev1.Service
		slices []*discoveryv1.EndpointSlice
		want   *wire.Service
	}{
		"an address and its named ports": {service(corev1.ServiceSpec{ClusterIP: "10.43.0.7", ClusterIPs: []string{"10.43.0.7", "fd00::7"},
			Ports: []corev1.ServicePort{{Port: 80}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}}),
			[]*discoveryv1.EndpointSlice{slice(endpoint("10.42.0.5", "", nil))},
			&wire.Service{IPs: []netip.Addr{ip("10.43.0.7"), ip("fd00::7")}, Ports: []wire.Port{{Name: "dns", Protocol: "udp", Number: 53}}}},
		"no address yet": {service(corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}), nil, nil},
		"headless: what is ready, in order, once": {service(headless),
			[]*discoveryv1.EndpointSlice{slice(endpoint("10.42.0.9", "", ptr(true)), endpoint("10.42.0.5", "db-0", nil)), slice(endpoint("10.42.0.9", "", ptr(true)), endpoint("10.42.0.6", "", ptr(false)))},
			&wire.Service{Endpoints: []wire.Endpoint{{IP: ip("10.42.0.5"), Hostname: "db-0", Ports: port}, {IP: ip("10.42.0.9"), Ports: port}}}},
		"headless without endpoints": {service(headless), nil, &wire.Service{}},
		"names are no addresses":     {service(headless), []*discoveryv1.EndpointSlice{{AddressType: discoveryv1.AddressTypeFQDN, Endpoints: []discoveryv1.Endpoint{endpoint("a.test", "", nil)}}}, &wire.Service{}},
		"external":                   {service(corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "WWW.example.test"}), nil, &wire.Service{Target: "www.example.test"}},
	} {
		if c.want != nil {
			c.want.Namespace, c.want.Name = "d", "web"
		}
		if d := cmp.Diff(c.want, plan(c.svc, c.slices), cmpopts.EquateComparable(netip.Addr{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
