package devices

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Why devices keep a pod away, as upstream has it.
const (
	reasonElsewhere = "resourceclaim not available on the node"
	reasonNone      = "cannot allocate all claims"
	reasonInUse     = "resourceclaim in use"
)

// Needs is what the claims of one pod come to at present: worked out once for
// an attempt to place it, then asked for each node.
type Needs struct {
	// Refusal keeps the pod from all nodes; "" when none does.
	Refusal string
	// On is what a change of may let the pod fit.
	On []string
	// Stuck is a claim that has devices where the pod cannot be, and that nobody
	// else has: it is to be taken back. nil: none.
	Stuck *resourcev1.ResourceClaim

	ctx       context.Context
	cat       *Catalog
	pod       *corev1.Pod
	allocated []*allocatedClaim
	pending   []*resourcev1.ResourceClaim // that have no devices yet
	shared    []*resourcev1.ResourceSlice // of no node in particular, once looked for
	looked    bool
	results   map[string]result // by node
}

type allocatedClaim struct {
	claim    *resourcev1.ResourceClaim
	selector *nodeaffinity.NodeSelector // nil: any node
}

// result is what the library found for a node.
type result struct {
	allocations []resourcev1.AllocationResult
	reason      string
}

// Of works out what a pod needs; nil: it claims no devices.
func (cat *Catalog) Of(ctx context.Context, pod *corev1.Pod) *Needs {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	n := &Needs{ctx: ctx, cat: cat, pod: pod, results: map[string]result{}}
	for i := range pod.Spec.ResourceClaims {
		if refusal := n.add(&pod.Spec.ResourceClaims[i]); n.Refusal == "" {
			n.Refusal = refusal
		}
	}
	return n
}

// add looks at one claim and says why the pod can be nowhere for its sake.
func (n *Needs) add(ref *corev1.PodResourceClaim) string {
	name, own, err := resourceclaim.Name(n.pod, ref)
	if err != nil {
		if ref.ResourceClaimTemplateName != nil {
			n.on("the ResourceClaim of ResourceClaimTemplate " + n.pod.Namespace + "/" + *ref.ResourceClaimTemplateName)
		}
		return err.Error()
	}
	if name == nil {
		return "" // it needs none
	}
	key := types.NamespacedName{Namespace: n.pod.Namespace, Name: *name}
	n.on(onClaim(key))
	claim := client.In[*resourcev1.ResourceClaim](n.cat.claims, key.Namespace, key.Name)
	switch {
	case claim == nil:
		return fmt.Sprintf("resourceclaim %q not found", key.Name)
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("resourceclaim %q is being deleted", key.Name)
	case slices.ContainsFunc(n.allocated, func(a *allocatedClaim) bool { return a.claim.UID == claim.UID }) ||
		slices.ContainsFunc(n.pending, func(c *resourcev1.ResourceClaim) bool { return c.UID == claim.UID }):
		return "" // claimed twice
	}
	if own {
		if err := resourceclaim.IsForPod(n.pod, claim, false); err != nil {
			return err.Error()
		}
	}
	allocation := claim.Status.Allocation
	if h := n.cat.held[claim.UID]; h != nil && allocation == nil {
		allocation = h.allocation // for another pod, a moment ago
	}
	if allocation == nil {
		n.pending = append(n.pending, claim)
		n.on(onFree)
		n.on(onSlices)
		return n.classesOf(claim)
	}
	if !resourceclaim.IsReservedForPod(n.pod, claim, false) && len(claim.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize {
		return reasonInUse
	}
	a := &allocatedClaim{claim: claim}
	if allocation.NodeSelector != nil {
		if a.selector, err = nodeaffinity.NewNodeSelector(allocation.NodeSelector); err != nil {
			return err.Error()
		}
	}
	n.allocated = append(n.allocated, a)
	return ""
}

// classesOf says which class of a claim's requests is not there.
func (n *Needs) classesOf(claim *resourcev1.ResourceClaim) string {
	missing := func(request, class string) string {
		if class == "" {
			return ""
		}
		n.on(onClass(class))
		if n.cat.classes.Get("", class) == nil {
			return fmt.Sprintf("request %s: device class %s does not exist", request, class)
		}
		return ""
	}
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if r.Exactly != nil {
			if refusal := missing(r.Name, r.Exactly.DeviceClassName); refusal != "" {
				return refusal
			}
		}
		for j := range r.FirstAvailable {
			if refusal := missing(r.Name+"/"+r.FirstAvailable[j].Name, r.FirstAvailable[j].DeviceClassName); refusal != "" {
				return refusal
			}
		}
	}
	return ""
}

func (n *Needs) on(what string) {
	if !slices.Contains(n.On, what) {
		n.On = append(n.On, what)
	}
}

// Refuses says why the pod cannot be on a node, or "". The first question for
// a node costs an allocation, so it is best asked last.
func (n *Needs) Refuses(node *corev1.Node) string {
	if n == nil {
		return ""
	}
	for _, a := range n.allocated {
		if a.selector == nil || a.selector.Match(node) {
			continue
		}
		if n.Stuck == nil && a.claim.Status.Allocation != nil && n.alone(a.claim) {
			n.Stuck = a.claim
		}
		return reasonElsewhere
	}
	if len(n.pending) == 0 {
		return ""
	}
	found, ok := n.results[node.Name]
	if !ok {
		found = n.allocate(node)
		n.results[node.Name] = found
	}
	return found.reason
}

// alone: the pod is the only one that a claim is reserved for.
func (n *Needs) alone(claim *resourcev1.ResourceClaim) bool {
	for i := range claim.Status.ReservedFor {
		if claim.Status.ReservedFor[i].UID != n.pod.UID {
			return false
		}
	}
	return n.cat.held[claim.UID] == nil
}

func (n *Needs) allocate(node *corev1.Node) result {
	allocator, err := n.cat.allocatorFor(n, node)
	if err != nil {
		return result{reason: err.Error()}
	}
	allocations, err := allocator.Allocate(n.ctx, node, n.pending)
	switch {
	case err != nil:
		return result{reason: err.Error()}
	case len(allocations) != len(n.pending):
		return result{reason: reasonNone}
	}
	return result{allocations: allocations}
}
