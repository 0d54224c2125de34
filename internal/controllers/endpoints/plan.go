package endpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/endpointslice"
)

const (
	// managedBy and its value say which objects are ours.
	managedBy = "endpoints.kubernetes.io/managed-by"
	ours      = "endpoint-controller"
	// maxAddresses is how many an object lists; of more than that the rest is
	// left out, and the annotation says so.
	maxAddresses = 1000
)

// plan returns the Endpoints object as it should be, or nil when had is right
// already. had may be nil.
func plan(service *corev1.Service, pods []*corev1.Pod, had *corev1.Endpoints) *corev1.Endpoints {
	subsets, truncated := subsetsOf(service, pods)
	want := &corev1.Endpoints{}
	if had != nil {
		want = had.DeepCopy()
	}
	want.Namespace, want.Name = service.Namespace, service.Name
	want.Subsets = subsets
	want.Labels = maps.Clone(service.Labels)
	if want.Labels == nil {
		want.Labels = map[string]string{}
	}
	want.Labels[managedBy] = ours
	delete(want.Labels, corev1.IsHeadlessService)
	if service.Spec.ClusterIP == corev1.ClusterIPNone {
		want.Labels[corev1.IsHeadlessService] = ""
	}
	if truncated {
		if want.Annotations == nil {
			want.Annotations = map[string]string{}
		}
		want.Annotations[corev1.EndpointsOverCapacity] = "truncated"
	} else {
		delete(want.Annotations, corev1.EndpointsOverCapacity)
	}
	if had != nil && equality.Semantic.DeepEqual(had, want) {
		return nil
	}
	return want
}

// subsetsOf groups the pods' addresses by their ports, in an order that
// depends on nothing else: equal states are equal bytes.
func subsetsOf(service *corev1.Service, pods []*corev1.Pod) (subsets []corev1.EndpointSubset, truncated bool) {
	family := corev1.IPv4Protocol
	if len(service.Spec.IPFamilies) > 0 {
		family = service.Spec.IPFamilies[0]
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(byReady(a, b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	index := map[string]int{}
	count := 0
	for _, pod := range pods {
		ip := endpointslice.Address(pod, family)
		publish := service.Spec.PublishNotReadyAddresses
		if !endpointslice.Backend(pod) || ip == "" || pod.DeletionTimestamp != nil && !publish {
			continue
		}
		ports := portsOf(service, pod)
		if len(ports) == 0 && len(service.Spec.Ports) > 0 {
			continue
		}
		if count++; count > maxAddresses {
			return finish(subsets), true
		}
		key := fmt.Sprint(ports)
		i, ok := index[key]
		if !ok {
			i = len(subsets)
			index[key] = i
			subsets = append(subsets, corev1.EndpointSubset{Ports: ports})
		}
		address := corev1.EndpointAddress{IP: ip, Hostname: endpointslice.Hostname(service, pod),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
		if pod.Spec.NodeName != "" {
			address.NodeName = &pod.Spec.NodeName
		}
		if publish || controllers.Ready(pod) {
			subsets[i].Addresses = append(subsets[i].Addresses, address)
		} else {
			subsets[i].NotReadyAddresses = append(subsets[i].NotReadyAddresses, address)
		}
	}
	return finish(subsets), false
}

// byReady puts the ready ones first: of too many they are listed.
func byReady(a, b *corev1.Pod) int {
	switch x, y := controllers.Ready(a), controllers.Ready(b); {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

func finish(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	byAddress := func(a, b corev1.EndpointAddress) int { return cmp.Compare(a.IP, b.IP) }
	for i := range subsets {
		slices.SortFunc(subsets[i].Addresses, byAddress)
		slices.SortFunc(subsets[i].NotReadyAddresses, byAddress)
	}
	slices.SortFunc(subsets, func(a, b corev1.EndpointSubset) int { return cmp.Compare(fmt.Sprint(a.Ports), fmt.Sprint(b.Ports)) })
	return subsets
}

func portsOf(service *corev1.Service, pod *corev1.Pod) []corev1.EndpointPort {
	var ports []corev1.EndpointPort
	for i := range service.Spec.Ports {
		p := &service.Spec.Ports[i]
		if number, ok := endpointslice.TargetPort(pod, p); ok {
			ports = append(ports, corev1.EndpointPort{Name: p.Name, Port: number, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), AppProtocol: p.AppProtocol})
		}
	}
	slices.SortFunc(ports, func(a, b corev1.EndpointPort) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	return ports
}
