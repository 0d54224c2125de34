// Package evict decides which pods have to leave a node: those that use more
// of its disk than they may and, when the node is short of memory or disk, the
// one that has the least claim to what it uses.
//
// It is pure: what is used is measured by the kubelet, and what is decided is
// done by the pods' workers.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
package evict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
)

// Reason of a pod that was evicted.
const Reason = "Evicted"

// critical is the priority from which pods are never evicted.
const critical = 2_000_000_000

// Usage is what a pod uses, in bytes.
type Usage struct {
	Pod        *v1.Pod
	Volumes    map[string]int64 // emptyDirs that lie on disk, by name
	Containers map[string]Container
}

// Container is what a container of a pod uses.
type Container struct {
	Memory int64 // its working set
	Disk   int64 // its writable layer and its logs
}

// Shortage is what a node has too little of. The zero value is nothing.
type Shortage struct {
	Resource             v1.ResourceName // memory or ephemeral-storage
	Available, Threshold int64
}

// Eviction is a pod that has to leave, and why.
type Eviction struct {
	Pod     *v1.Pod
	Message string
	// Disruption: it was the node's want, not the pod's excess.
	Disruption bool
}

// Excess finds the pods that use more disk than they may.
func Excess(pods []Usage) []Eviction {
	var out []Eviction
	for i := range pods {
		if message := pods[i].excess(); message != "" {
			out = append(out, Eviction{Pod: pods[i].Pod, Message: message})
		}
	}
	return out
}

func (u *Usage) excess() string {
	for i := range u.Pod.Spec.Volumes {
		v := &u.Pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil {
			continue
		}
		if limit := v.EmptyDir.SizeLimit; limit.Sign() > 0 && u.Volumes[v.Name] > limit.Value() {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, limit.String())
		}
	}
	for i := range u.Pod.Spec.Containers {
		c := &u.Pod.Spec.Containers[i]
		if limit, ok := c.Resources.Limits[v1.ResourceEphemeralStorage]; ok && u.Containers[c.Name].Disk > limit.Value() {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
	}
	limits := resourcehelper.PodLimits(u.Pod, resourcehelper.PodResourcesOptions{})
	if limit, ok := limits[v1.ResourceEphemeralStorage]; ok && u.of(v1.ResourceEphemeralStorage) > limit.Value() {
		return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
	}
	return ""
}

// of is what the whole pod uses.
func (u *Usage) of(name v1.ResourceName) (sum int64) {
	for _, c := range u.Containers {
		if name == v1.ResourceMemory {
			sum += c.Memory
		} else {
			sum += c.Disk
		}
	}
	if name == v1.ResourceEphemeralStorage {
		for _, n := range u.Volumes {
			sum += n
		}
	}
	return sum
}

// Relieve finds the pod that has to leave a node that is short of something;
// nil when there is none. One goes at a time: the next is looked for when it is
// seen what that has brought.
func Relieve(pods []Usage, s Shortage) *Eviction {
	var rank []claim
	for i := range pods {
		u := &pods[i]
		if schedulingv1.PodPriority(u.Pod) >= critical || u.of(s.Resource) == 0 {
			continue
		}
		requests := resourcehelper.PodRequests(u.Pod, resourcehelper.PodResourcesOptions{})
		request := requests[s.Resource]
		rank = append(rank, claim{u, schedulingv1.PodPriority(u.Pod), u.of(s.Resource) - request.Value()})
	}
	if len(rank) == 0 {
		return nil
	}
	slices.SortFunc(rank, claim.compare)
	return &Eviction{Pod: rank[0].usage.Pod, Message: rank[0].usage.complain(s), Disruption: true}
}

// claim is what a pod uses beyond what it asked for.
type claim struct {
	usage    *Usage
	priority int32
	beyond   int64
}

// compare puts first what leaves first: who uses more than it asked for, then
// who is less urgent, then who uses most beyond what it asked for.
func (c claim) compare(d claim) int {
	if over, under := c.beyond > 0, d.beyond > 0; over != under {
		if over {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(c.priority, d.priority), cmp.Compare(d.beyond, c.beyond), cmp.Compare(c.usage.Pod.UID, d.usage.Pod.UID))
}

// complain says which containers of the pod use more than they asked for.
func (u *Usage) complain(s Shortage) string {
	quantity := func(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ", s.Resource, quantity(s.Threshold), quantity(s.Available))
	for i := range u.Pod.Spec.Containers {
		c := &u.Pod.Spec.Containers[i]
		used := u.Containers[c.Name].Memory
		if s.Resource != v1.ResourceMemory {
			used = u.Containers[c.Name].Disk
		}
		if request := c.Resources.Requests[s.Resource]; used > request.Value() {
			fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %s. ", c.Name, quantity(used), request.String(), s.Resource)
		}
	}
	return b.String()
}
