package endpointslice

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Backends finds the pods of a service and the services of a pod, each in
// proportion to what there is of them.
type Backends struct {
	Services, Pods client.View
}

// NewBackends takes the views of a client and prepares them.
func NewBackends(c client.Interface) Backends {
	b := Backends{
		Services: c.View(client.Services, client.ViewOptions{}),
		Pods:     c.View(client.Pods, client.ViewOptions{}),
	}
	controllers.IndexBySelector(b.Services, func(obj client.Object) map[string]string {
		if service, ok := obj.(*corev1.Service); ok {
			return service.Spec.Selector
		}
		return nil
	})
	controllers.IndexByLabel(b.Pods)
	return b
}

// Of returns the pods that a service selects.
func (b Backends) Of(service *corev1.Service) []*corev1.Pod {
	return controllers.Selected[*corev1.Pod](b.Pods, service.Namespace, service.Spec.Selector)
}

// PodChanged makes a handler that looks at the services to which a pod's
// change matters.
func (b Backends) PodChanged(look func(loop.Key)) func(old, new client.Object) {
	return func(old, new client.Object) {
		before, _ := old.(*corev1.Pod)
		pod, _ := new.(*corev1.Pod)
		if before != nil && pod != nil && sameBackend(before, pod) {
			return
		}
		if before != nil && (pod == nil || !maps.Equal(before.Labels, pod.Labels)) {
			b.look(before, look)
		}
		if pod != nil {
			b.look(pod, look)
		}
	}
}

func (b Backends) look(pod *corev1.Pod, look func(loop.Key)) {
	for _, service := range controllers.Selecting[*corev1.Service](b.Services, pod.Namespace, pod.Labels) {
		if Managed(service) && controllers.HasAll(pod.Labels, service.Spec.Selector) {
			look(controllers.KeyOf(service))
		}
	}
}

// Managed tells whether the endpoints of a service are ours to list: others
// are kept by whoever made them.
func Managed(service *corev1.Service) bool {
	return len(service.Spec.Selector) > 0 && service.Spec.Type != corev1.ServiceTypeExternalName
}

// sameBackend tells that nothing of a pod changed that its services show.
func sameBackend(a, b *corev1.Pod) bool {
	return a.UID == b.UID && Backend(a) == Backend(b) && controllers.Ready(a) == controllers.Ready(b) &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		a.Spec.NodeName == b.Spec.NodeName && slices.Equal(a.Status.PodIPs, b.Status.PodIPs) && a.Status.PodIP == b.Status.PodIP &&
		maps.Equal(a.Labels, b.Labels)
}
