package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// Containers that ask for nothing are scored, but not filtered, as if they
// asked for this, so that pods without requests spread as well.
const (
	defaultMilliCPU = 100
	defaultMemory   = 200 << 20
)

// amounts is a vector of resources. CPU is in millicores, memory and ephemeral
// storage are in bytes, the rest in units.
type amounts struct {
	milliCPU  int64
	memory    int64
	ephemeral int64
	// scalar holds extended resources and huge pages; nil when there are none.
	scalar map[corev1.ResourceName]int64
}

func amountsOf(list corev1.ResourceList) amounts {
	var a amounts
	for name, q := range list {
		switch name {
		case corev1.ResourceCPU:
			a.milliCPU = q.MilliValue()
		case corev1.ResourceMemory:
			a.memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			a.ephemeral = q.Value()
		case corev1.ResourcePods:
		default:
			if a.scalar == nil {
				a.scalar = map[corev1.ResourceName]int64{}
			}
			a.scalar[name] = q.Value()
		}
	}
	return a
}

// add adds b times sign to a. The map of a is a's own from then on.
func (a *amounts) add(b *amounts, sign int64) {
	a.milliCPU += sign * b.milliCPU
	a.memory += sign * b.memory
	a.ephemeral += sign * b.ephemeral
	if len(b.scalar) == 0 {
		return
	}
	if a.scalar == nil {
		a.scalar = make(map[corev1.ResourceName]int64, len(b.scalar))
	}
	for name, v := range b.scalar {
		if a.scalar[name] += sign * v; a.scalar[name] == 0 {
			delete(a.scalar, name)
		}
	}
}

func (a *amounts) zero() bool {
	return a.milliCPU == 0 && a.memory == 0 && a.ephemeral == 0 && len(a.scalar) == 0
}

var nonZero = corev1.ResourceList{
	corev1.ResourceCPU:    *resource.NewMilliQuantity(defaultMilliCPU, resource.DecimalSI),
	corev1.ResourceMemory: *resource.NewQuantity(defaultMemory, resource.BinarySI),
}

// podRequests returns what a pod asks for (containers, sidecars, init
// containers, pod-level resources, overhead, resizes in progress), and the
// CPU and memory it is scored by.
func podRequests(pod *corev1.Pod) (requests amounts, scoreCPU, scoreMemory int64) {
	if plain(pod) {
		return sumRequests(pod.Spec.Containers)
	}
	opts := podresource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
	requests = amountsOf(podresource.PodRequests(pod, opts))
	opts.NonMissingContainerRequests = nonZero
	list := podresource.PodRequests(pod, opts)
	return requests, list.Cpu().MilliValue(), list.Memory().Value()
}

// plain pods, which most are, ask for the sum of their containers' requests.
func plain(pod *corev1.Pod) bool {
	if len(pod.Spec.InitContainers) > 0 || pod.Spec.Resources != nil || pod.Spec.Overhead != nil || pod.Status.Resources != nil {
		return false
	}
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Resources != nil || c.AllocatedResources != nil {
			return false
		}
	}
	return true
}

func sumRequests(containers []corev1.Container) (requests amounts, scoreCPU, scoreMemory int64) {
	for i := range containers {
		list := containers[i].Resources.Requests
		one := amountsOf(list)
		requests.add(&one, 1)
		if _, ok := list[corev1.ResourceCPU]; !ok {
			one.milliCPU = defaultMilliCPU
		}
		if _, ok := list[corev1.ResourceMemory]; !ok {
			one.memory = defaultMemory
		}
		scoreCPU, scoreMemory = scoreCPU+one.milliCPU, scoreMemory+one.memory
	}
	return requests, scoreCPU, scoreMemory
}
