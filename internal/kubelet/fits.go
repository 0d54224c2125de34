package kubelet

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// fits says why the node has no room for what a running pod is resized to.
func (k *Kubelet) fits(p *v1.Pod) *status.Pending {
	var others []*v1.Pod
	for _, o := range k.pods.List("") {
		if q := o.(*v1.Pod); q.UID != p.UID && q.Status.Phase != v1.PodSucceeded && q.Status.Phase != v1.PodFailed {
			others = append(others, q)
		}
	}
	return Fits(k.node.Allocatable(), others, p)
}

// Fits says why a node with other pods has no room for a pod that is resized,
// or nil: it never will (Infeasible), or not before others leave (Deferred).
func Fits(allocatable v1.ResourceList, others []*v1.Pod, p *v1.Pod) *status.Pending {
	wanted := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	used := v1.ResourceList{}
	for _, q := range others {
		// What others have, also while they wait for more.
		for name, v := range resourcehelper.PodRequests(q, resourcehelper.PodResourcesOptions{UseStatusResources: true}) {
			sum := used[name]
			sum.Add(v)
			used[name] = sum
		}
	}
	for _, infeasible := range []bool{true, false} {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			want, have, sum := amount(wanted, name), amount(allocatable, name), amount(used, name)
			switch {
			case want == 0:
			case infeasible && want > have:
				return &status.Pending{Reason: v1.PodReasonInfeasible,
					Message: fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, want, have)}
			case !infeasible && sum+want > have:
				return &status.Pending{Reason: v1.PodReasonDeferred,
					Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, want, sum, have)}
			}
		}
	}
	return nil
}

// amount is thousandths of a CPU, or bytes.
func amount(list v1.ResourceList, name v1.ResourceName) int64 {
	q := list[name]
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}
