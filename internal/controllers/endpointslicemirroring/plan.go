package endpointslicemirroring

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/sliceset"
)

const (
	// ManagedBy is the value of the label that says which slices are ours.
	ManagedBy = "endpointslicemirroring-controller.k8s.io"
	// maxAddresses are mirrored of each group of ports, as upstream's default
	// has it; it is also what a slice may hold.
	maxAddresses = 1000
	leader       = "control-plane.alpha.kubernetes.io/leader"
)

// mirrored tells whether an Endpoints object is to be mirrored: its service is
// there and selects no pods, and nobody said no.
func mirrored(ep *corev1.Endpoints, svc *corev1.Service) bool {
	if ep == nil || ep.DeletionTimestamp != nil || svc == nil || len(svc.Spec.Selector) > 0 {
		return false
	}
	_, election := ep.Annotations[leader]
	return !election && ep.Labels[discoveryv1.LabelSkipMirror] != "true"
}

// wanted are the slices that mirror ep, one for each family and set of ports.
// left counts the addresses beyond the limit.
func wanted(ep *corev1.Endpoints) (out []*discoveryv1.EndpointSlice, left int) {
	bySlice := map[string]*discoveryv1.EndpointSlice{}
	seen := map[string]int{} // where each address is in its slice
	for i := range ep.Subsets {
		subset := &ep.Subsets[i]
		ports := portsOf(subset.Ports)
		for _, group := range []struct {
			list  []corev1.EndpointAddress
			ready bool
		}{{subset.Addresses, true}, {subset.NotReadyAddresses, false}} {
			for k := range group.list {
				family, ok := familyOf(group.list[k].IP)
				if !ok {
					continue
				}
				name := sliceName(ep, family, ports)
				s := bySlice[name]
				if s == nil {
					s = newSlice(ep, name, family, ports)
					bySlice[name], out = s, append(out, s)
				}
				one := endpointOf(&group.list[k], group.ready)
				if at, twice := seen[name+one.Addresses[0]]; twice {
					if group.ready { // one that is ready somewhere is ready
						s.Endpoints[at] = one
					}
					continue
				}
				if len(s.Endpoints) == maxAddresses {
					left++
					continue
				}
				seen[name+one.Addresses[0]] = len(s.Endpoints)
				s.Endpoints = append(s.Endpoints, one)
			}
		}
	}
	return out, left
}

func familyOf(text string) (discoveryv1.AddressType, bool) {
	ip, err := netip.ParseAddr(text)
	return discoveryv1.AddressType(controllers.FamilyOf(ip)), err == nil
}

func portsOf(list []corev1.EndpointPort) []discoveryv1.EndpointPort {
	out := make([]discoveryv1.EndpointPort, len(list))
	for i := range list {
		p := list[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		out[i] = discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol}
	}
	return out
}

func endpointOf(a *corev1.EndpointAddress, ready bool) discoveryv1.Endpoint {
	ep := discoveryv1.Endpoint{Addresses: []string{a.IP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}, TargetRef: a.TargetRef, NodeName: a.NodeName}
	if a.Hostname != "" {
		ep.Hostname = &a.Hostname
	}
	return ep
}

// sliceName follows from what the slice is for, so that two copies of the
// loop, or one that crashed after its write, make none twice.
func sliceName(ep *corev1.Endpoints, family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) string {
	text, err := json.Marshal(ports)
	if err != nil {
		panic(fmt.Sprintf("ports cannot be marshalled: %v", err))
	}
	h := fnv.New64a()
	fmt.Fprint(h, ep.UID, family, string(text))
	return fmt.Sprintf("%s-%s", ep.Name[:min(len(ep.Name), 253-14)], rand.SafeEncodeString(fmt.Sprintf("%013d", h.Sum64()%1e13)))
}

func newSlice(ep *corev1.Endpoints, name string, family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: ep.Namespace, Name: name, Labels: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ep, corev1.SchemeGroupVersion.WithKind("Endpoints"))}},
		AddressType: family, Ports: ports,
	}
	maps.Copy(s.Labels, ep.Labels)
	s.Labels[discoveryv1.LabelServiceName], s.Labels[discoveryv1.LabelManagedBy] = ep.Name, ManagedBy
	for k, v := range ep.Annotations {
		if k == corev1.LastAppliedConfigAnnotation || k == corev1.EndpointsLastChangeTriggerTime {
			continue
		}
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[k] = v
	}
	return s
}

// plan returns the next write that makes the slices those wanted.
func plan(had, want []*discoveryv1.EndpointSlice) sliceset.Step {
	return sliceset.Next(had, want, func(into, want *discoveryv1.EndpointSlice) {
		into.Labels, into.Annotations, into.OwnerReferences = want.Labels, want.Annotations, want.OwnerReferences
		into.Ports, into.Endpoints = want.Ports, want.Endpoints
	})
}
