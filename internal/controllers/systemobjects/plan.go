// Package systemobjects is the loop that keeps what every cluster has: the
// namespaces default, kube-system, kube-public and kube-node-lease, the service
// kubernetes in default, by which pods reach the API server, and a note of when
// the API server began to note which tokens are used.
//
// See https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/#initial-namespaces.
package systemobjects

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers/legacytokens"
)

// Server is where the API server is reached.
type Server struct {
	// Addresses of the servers, as pods reach them. Those of another family than
	// the service's are of no use to it.
	Addresses []netip.Addr
	Port      int32      // where the servers listen
	ServiceIP netip.Addr // the first of the service range, as a rule
}

const (
	serviceName = "kubernetes"
	portName    = "https"
	servicePort = 443
)

// Namespaces that every cluster has.
var Namespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// piece is one object that must be there.
type piece struct {
	res client.Resource
	// want makes the object anew.
	want client.Object
	// mend returns a changed copy of what is there, or nil when that will do.
	mend func(there client.Object) client.Object
}

// pieces lists what must be there, in an order in which it can be created.
func pieces(s Server) []piece {
	var all []piece
	for _, name := range Namespaces {
		all = append(all, piece{res: client.Namespaces, want: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	all = append(all, tracking(time.Now()))
	if !s.ServiceIP.IsValid() {
		return all
	}
	return append(all, s.service(), s.endpoints(), s.slice())
}

// tracking is the ConfigMap that says since when uses of tokens are noted. A
// day that can be read stays; it is what clients go by.
func tracking(now time.Time) piece {
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: legacytokens.Tracking},
		Data:       map[string]string{legacytokens.Since: now.UTC().Format(time.DateOnly)},
	}
	return piece{res: client.ConfigMaps, want: want, mend: func(there client.Object) client.Object {
		cm := there.(*corev1.ConfigMap)
		if _, err := time.Parse(time.DateOnly, cm.Data[legacytokens.Since]); err == nil {
			return nil
		}
		cm = cm.DeepCopy()
		cm.Data = want.Data
		return cm
	}}
}

func (s Server) family() corev1.IPFamily {
	if s.ServiceIP.Is6() {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// reached are the addresses that the service leads to.
func (s Server) reached() (out []netip.Addr) {
	for _, a := range s.Addresses {
		if a.Is4() == s.ServiceIP.Is4() {
			out = append(out, a)
		}
	}
	return out
}

func (s Server) service() piece {
	single := corev1.IPFamilyPolicySingleStack
	labels := map[string]string{"component": "apiserver", "provider": "kubernetes"}
	want := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: serviceName, Labels: labels},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: s.ServiceIP.String(), ClusterIPs: []string{s.ServiceIP.String()},
			IPFamilyPolicy: &single, IPFamilies: []corev1.IPFamily{s.family()},
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports:           []corev1.ServicePort{{Name: portName, Protocol: corev1.ProtocolTCP, Port: servicePort, TargetPort: intstr.FromInt32(s.Port)}},
		},
	}
	return piece{res: client.Services, want: want, mend: func(there client.Object) client.Object {
		svc := there.(*corev1.Service)
		if equality.Semantic.DeepEqual(svc.Spec.Ports, want.Spec.Ports) {
			return nil // a cluster IP cannot be changed: it stays what it is
		}
		svc = svc.DeepCopy()
		svc.Spec.Ports = want.Spec.Ports
		return svc
	}}
}

func (s Server) endpoints() piece {
	var addresses []corev1.EndpointAddress
	for _, a := range s.reached() {
		addresses = append(addresses, corev1.EndpointAddress{IP: a.String()})
	}
	want := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: serviceName, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}},
	}
	if len(addresses) > 0 {
		want.Subsets = []corev1.EndpointSubset{{Addresses: addresses, Ports: []corev1.EndpointPort{{Name: portName, Port: s.Port, Protocol: corev1.ProtocolTCP}}}}
	}
	return piece{res: client.Endpoints, want: want, mend: func(there client.Object) client.Object {
		ep := there.(*corev1.Endpoints)
		if equality.Semantic.DeepEqual(ep.Subsets, want.Subsets) {
			return nil
		}
		ep = ep.DeepCopy()
		ep.Subsets = want.Subsets
		return ep
	}}
}

func (s Server) slice() piece {
	name, port, protocol, ready := portName, s.Port, corev1.ProtocolTCP, true
	want := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: serviceName, Labels: map[string]string{discoveryv1.LabelServiceName: serviceName}},
		AddressType: discoveryv1.AddressType(s.family()),
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for _, a := range s.reached() {
		want.Endpoints = append(want.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{a.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return piece{res: client.EndpointSlices, want: want, mend: func(there client.Object) client.Object {
		slice := there.(*discoveryv1.EndpointSlice)
		if equality.Semantic.DeepEqual(slice.Endpoints, want.Endpoints) && equality.Semantic.DeepEqual(slice.Ports, want.Ports) {
			return nil
		}
		slice = slice.DeepCopy()
		slice.Endpoints, slice.Ports = want.Endpoints, want.Ports
		return slice
	}}
}
