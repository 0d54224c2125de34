package reach_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/reach"
	"github.com/setpoint-project/setpoint/internal/client"
)

// slice makes an EndpointSlice of hook; endpoints are "ADDRESS [NODE] [unready]".
func slice(port string, number int32, endpoints ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &port, Port: &number}},
	}
	for _, text := range endpoints {
		e := discoveryv1.Endpoint{}
		for i, word := range strings.Fields(text) {
			switch {
			case i == 0:
				e.Addresses = []string{word}
			case word == "unready":
				e.Conditions.Ready = new(false)
			default:
				e.NodeName = &word
			}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// What is returned may be dialled; what is not says why.
func TestAddress(t *testing.T) {
	service := func(change ...func(*corev1.ServiceSpec)) *corev1.Service {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.9",
			Ports: []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "tls", Port: 443}}}}
		for _, f := range change {
			f(&s.Spec)
		}
		return s
	}
	for _, test := range []struct {
		name    string
		svc     *corev1.Service // nil: there is none
		port    int32
		fences  []string
		slices  []*discoveryv1.EndpointSlice
		want    string // an address, or what the error has
		lacking bool   // no endpoints
	}{
		{name: "its own address, on a node", svc: service(), port: 443, fences: []string{"10.96.0.0/16", "10.42.0.0/16"}, want: "10.96.0.9:443"},
		{name: "by name", svc: service(func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalName, s.ClusterIP = "ExternalName", "hook.example.com", ""
		}), port: 8443, want: "hook.example.com:8443"},
		{name: "IPv6", svc: service(func(s *corev1.ServiceSpec) { s.ClusterIP = "fd00::9" }), port: 443, fences: []string{"fd00::/112"}, want: "[fd00::9]:443"},
		{name: "no service", port: 443, want: `services "hook" not found`},
		{name: "no address", svc: service(func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }), port: 443, want: "has no cluster IP"},
		{name: "another port", svc: service(), port: 444, fences: []string{"10.96.0.0/16"}, want: `no service port 444 found for service "hook"`},
		{name: "an endpoint on this machine", svc: service(), port: 443, slices: []*discoveryv1.EndpointSlice{slice("tls", 9443, "192.168.7.7")}, want: "192.168.7.7:9443"},
		{name: "the ready one, of the port", svc: service(), port: 443, slices: []*discoveryv1.EndpointSlice{slice("web", 8080, "192.168.7.6"), slice("tls", 9443, "192.168.7.7 unready", "192.168.7.8")}, want: "192.168.7.8:9443"},
		{name: "pods of simulated nodes", svc: service(), port: 443, slices: []*discoveryv1.EndpointSlice{slice("tls", 9443, "10.42.1.1 sim-0")}, want: "simulated nodes: there is nothing to connect to", lacking: true},
		{name: "simulated though the ranges are another cluster's here", svc: service(), port: 443, fences: []string{"10.42.0.0/16"}, slices: []*discoveryv1.EndpointSlice{slice("tls", 9443, "10.42.1.1 sim-0")}, want: "nothing to connect to", lacking: true},
		{name: "one is not simulated", svc: service(), port: 443, slices: []*discoveryv1.EndpointSlice{slice("tls", 9443, "10.42.1.1 sim-0", "192.168.7.8 real")}, want: "192.168.7.8:9443"},
		{name: "pods that are elsewhere", svc: service(), port: 443, slices: []*discoveryv1.EndpointSlice{slice("tls", 9443, "10.42.1.1 real")}, want: "nor can its pods", lacking: true},
		{name: "no endpoints", svc: service(), port: 443, want: "has no ready endpoints", lacking: true},
		{name: "none that is ready", svc: service(), port: 443, slices: []*discoveryv1.EndpointSlice{slice("tls", 9443, "192.168.7.7 unready")}, want: "has no ready endpoints", lacking: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			within := func(ip netip.Addr, ranges ...string) bool {
				for _, r := range ranges {
					if netip.MustParsePrefix(r).Contains(ip) {
						return true
					}
				}
				return false
			}
			r := &reach.Resolver{
				Get: func(_ context.Context, res client.Resource, _, name string) (client.Object, error) {
					switch {
					case res.Resource == "nodes":
						return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
					case test.svc == nil:
						return nil, apierrors.NewNotFound(res.GroupResource(), name)
					}
					s := test.svc.DeepCopy()
					s.Namespace, s.Name = "default", name
					return s, nil
				},
				List: func(context.Context, client.Resource, string) (out []client.Object, _ error) {
					for _, s := range test.slices {
						out = append(out, s)
					}
					return out, nil
				},
				Fenced:    func(ip netip.Addr) bool { return within(ip, test.fences...) },
				Ours:      func(ip netip.Addr) bool { return within(ip, "10.42.0.0/16", "10.96.0.0/16") },
				Simulated: func(n *corev1.Node) bool { return strings.HasPrefix(n.Name, "sim-") },
			}
			got, err := r.Address(t.Context(), "default", "hook", test.port)
			if err != nil {
				if got += err.Error(); strings.Contains(got, test.want) {
					got = test.want
				}
			}
			if got != test.want || errors.Is(err, reach.ErrNoEndpoints) != test.lacking {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// TestDial: whatever an address of the cluster is called, it is dialled from where
// there is a way to it only.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var dialled atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			c.Write([]byte("x"))
			c.Close()
		}
	}()
	port := int32(l.Addr().(*net.TCPAddr).Port)
	loopback := func(ip netip.Addr) bool { return ip.IsLoopback() }
	never := func(netip.Addr) bool { return false }
	for _, test := range []struct {
		name         string
		ours, fenced func(netip.Addr) bool
		want         bool
	}{
		{"of the world", never, never, true},
		{"nobody knows what is ours", nil, nil, true},
		{"ours, with a way to it", loopback, loopback, true},
		{"ours, all have a way", loopback, nil, true},
		{"ours, without", loopback, never, false},
	} {
		for _, host := range []string{"127.0.0.1", "::ffff:127.0.0.1", "localhost"} {
			t.Run(test.name+", "+host, func(t *testing.T) {
				r := &reach.Resolver{Ours: test.ours, Fenced: test.fenced,
					Get: func(context.Context, client.Resource, string, string) (client.Object, error) {
						return &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: host}}, nil
					}}
				before := dialled.Load()
				for how, dial := range map[string]func() (net.Conn, error){
					"by address": func() (net.Conn, error) {
						return r.Dial(t.Context(), "tcp", net.JoinHostPort(host, fmt.Sprint(port)))
					},
					"by service": func() (net.Conn, error) { return r.DialService(t.Context(), "tcp", "default", "hook", port) },
				} {
					c, err := dial()
					if (err == nil) != test.want {
						t.Errorf("%s: %v", how, err)
					}
					if err == nil {
						c.Read(make([]byte, 1)) // it was accepted
						c.Close()
					} else if !strings.Contains(err.Error(), "an address of the cluster") {
						t.Errorf("%s: %v does not say why", how, err)
					}
				}
				if n := dialled.Load() - before; n > 0 != test.want {
					t.Errorf("dialled %d times", n)
				}
			})
		}
	}
}
