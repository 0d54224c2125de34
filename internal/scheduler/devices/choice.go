package devices

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// Choice is which devices a pod's claims are to have on a node, and that they
// are reserved for the pod.
type Choice struct {
	pod    *corev1.Pod
	claims []chosen
}

// chosen is a claim with its allocation; nil: it has one.
type chosen struct {
	claim      *resourcev1.ResourceClaim
	allocation *resourcev1.AllocationResult
}

// Choose chooses devices on a node that is not refused; nil when nothing is to
// be written.
func (n *Needs) Choose(node *corev1.Node) *Choice {
	if n == nil {
		return nil
	}
	c := &Choice{pod: n.pod}
	for _, a := range n.allocated {
		if a.claim.Status.Allocation == nil || !resourceclaim.IsReservedForPod(n.pod, a.claim, false) {
			c.claims = append(c.claims, chosen{claim: a.claim})
		}
	}
	if len(n.pending) > 0 {
		found := n.results[node.Name]
		if len(found.allocations) != len(n.pending) {
			return nil
		}
		for i, claim := range n.pending {
			allocation := found.allocations[i].DeepCopy()
			now := metav1.NewTime(time.Now())
			allocation.AllocationTimestamp = &now
			c.claims = append(c.claims, chosen{claim: claim, allocation: allocation})
		}
	}
	if len(c.claims) == 0 {
		return nil
	}
	return c
}

// Hold keeps what was chosen from others, until Release.
func (cat *Catalog) Hold(c *Choice) {
	for i := range c.claims {
		x := &c.claims[i]
		h := cat.held[x.claim.UID]
		if h == nil {
			h = &hold{allocation: x.allocation}
			cat.held[x.claim.UID] = h
		}
		h.users++
	}
}

// Release ends a Hold.
func (cat *Catalog) Release(c *Choice) {
	for i := range c.claims {
		uid := c.claims[i].claim.UID
		if h := cat.held[uid]; h != nil {
			if h.users--; h.users == 0 {
				delete(cat.held, uid)
			}
		}
	}
}

// Write writes a choice, and returns once the view shows it. It may be called
// from any goroutine. What another pod has written of a claim meanwhile is a
// conflict: the pod is tried again.
func (cat *Catalog) Write(ctx context.Context, c client.Interface, choice *Choice) error {
	for i := range choice.claims {
		x := &choice.claims[i]
		claim := x.claim
		if now := client.In[*resourcev1.ResourceClaim](cat.claims, claim.Namespace, claim.Name); x.allocation == nil && now != nil && now.UID == claim.UID {
			claim = now // another pod may have been reserved in it since
		}
		var err error
		if x.allocation != nil && !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
			// First, so that an allocation is never forgotten with its claim.
			claim = claim.DeepCopy()
			claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
			if claim, err = client.Update(ctx, c, client.ResourceClaims, claim); err != nil {
				return fmt.Errorf("protect ResourceClaim %s/%s: %w", x.claim.Namespace, x.claim.Name, err)
			}
		}
		claim = claim.DeepCopy()
		if x.allocation != nil {
			claim.Status.Allocation = x.allocation
		}
		if claim.Status.Allocation == nil {
			return fmt.Errorf("ResourceClaim %s/%s: its allocation is not written yet", claim.Namespace, claim.Name)
		}
		if !resourceclaim.IsReservedForPod(choice.pod, claim, false) {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: choice.pod.Name, UID: choice.pod.UID})
		}
		if claim, err = writeStatus(ctx, c, claim); err != nil {
			return fmt.Errorf("allocate ResourceClaim %s/%s: %w", x.claim.Namespace, x.claim.Name, err)
		}
		if err := cat.claims.WaitFor(ctx, claim.ResourceVersion); err != nil {
			return err
		}
	}
	return nil
}

// writeStatus writes the status of a claim. An error means that it is not
// written: its devices may be given to another. So when the answer is lost, it
// asks until it knows.
func writeStatus(ctx context.Context, c client.Interface, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	got, err := client.Update(ctx, c, client.ResourceClaims, claim, "status")
	if err == nil || controllers.Answered(err) {
		return got, err
	}
	for wait := time.Second; ; wait = min(2*wait, 10*time.Second) {
		live, asked := client.Get[*resourcev1.ResourceClaim](ctx, c, client.ResourceClaims, claim.Namespace, claim.Name)
		switch {
		case errors.IsNotFound(asked):
			return nil, asked
		case asked == nil && live.UID == claim.UID && equality.Semantic.DeepEqual(live.Status.ReservedFor, claim.Status.ReservedFor) &&
			live.Status.Allocation != nil && equality.Semantic.DeepEqual(live.Status.Allocation.Devices, claim.Status.Allocation.Devices):
			return live, nil
		case asked == nil:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

// TakeBack takes the devices from a claim that no pod uses.
func TakeBack(ctx context.Context, c client.Interface, claim *resourcev1.ResourceClaim) error {
	claim = claim.DeepCopy()
	claim.Status.Allocation, claim.Status.ReservedFor, claim.Status.Devices = nil, nil, nil
	_, err := client.Update(ctx, c, client.ResourceClaims, claim, "status")
	return err
}
