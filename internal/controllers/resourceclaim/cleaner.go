package resourceclaim

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// CleanerName is the name of the loop that takes back what is no longer used.
const CleanerName = "resourceclaimcleaning"

// Cleaner takes reservations back from pods that have ended, devices from
// claims that nobody has reserved any more, and claims from pods that have
// ended for which they were made.
type Cleaner struct {
	*loop.Loop
	client       client.Interface
	written      controllers.Written
	pods, claims client.View
}

// byPod finds the claims that were made for a pod or are reserved for it, by
// the pod's uid.
const byPod = "pod"

// NewCleaner wires the loop; Run turns it.
func NewCleaner(opts controllers.Options) *Cleaner {
	all := client.ViewOptions{}
	c := &Cleaner{client: opts.Client, pods: opts.Client.View(client.Pods, all), claims: opts.Client.View(client.ResourceClaims, all)}
	c.claims.Index(byPod, func(obj client.Object) (uids []string) {
		claim, ok := obj.(*resourcev1.ResourceClaim)
		if !ok {
			return nil
		}
		if ref := metav1.GetControllerOfNoCopy(claim); ref != nil {
			uids = append(uids, string(ref.UID))
		}
		for i := range claim.Status.ReservedFor {
			uids = append(uids, string(claim.Status.ReservedFor[i].UID))
		}
		slices.Sort(uids)
		return slices.Compact(uids)
	})
	c.Loop = controllers.NewLoop(opts, CleanerName, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Cleaner) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.claims, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.pods, Changed: func(old, new client.Object) {
			pod, ok := controllers.Present(old, new).(*corev1.Pod)
			// Also one whose spec names no claim: whoever reserved one for it.
			if !ok || new != nil && !controllers.Ended(pod) && pod.DeletionTimestamp == nil {
				return
			}
			for _, claim := range c.claims.ByIndex(byPod, string(pod.UID)) {
				c.Look(controllers.KeyOf(claim))
			}
		}})
}

func (c *Cleaner) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	claim := client.In[*resourcev1.ResourceClaim](c.claims, key.Namespace, key.Name)
	if claim == nil {
		return loop.Done(), nil
	}
	kept := make([]resourcev1.ResourceClaimConsumerReference, 0, len(claim.Status.ReservedFor))
	for _, ref := range claim.Status.ReservedFor {
		uses, err := c.uses(ctx, claim.Namespace, &ref)
		if err != nil {
			return loop.Outcome{}, err
		}
		if uses {
			kept = append(kept, ref)
		}
	}
	free := len(kept) == 0 && (len(claim.Status.ReservedFor) > 0 || claim.DeletionTimestamp != nil)
	switch {
	case len(kept) < len(claim.Status.ReservedFor) || free && claim.Status.Allocation != nil:
		changed := claim.DeepCopy()
		changed.Status.ReservedFor = kept
		if free {
			changed.Status.Allocation, changed.Status.Devices = nil, nil
		}
		got, err := c.client.Update(ctx, client.ResourceClaims, changed, "status")
		if apierrors.IsNotFound(err) {
			return loop.Done(), nil
		}
		return c.written.Outcome(key, c.claims, got, err, "update", "claim %s: its pods have ended", claim.Name)
	case claim.DeletionTimestamp != nil && len(kept) == 0 && slices.Contains(claim.Finalizers, resourcev1.Finalizer):
		changed := claim.DeepCopy()
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
		got, err := c.client.Update(ctx, client.ResourceClaims, changed)
		if apierrors.IsNotFound(err) {
			return loop.Done(), nil
		}
		return c.written.Outcome(key, c.claims, got, err, "release", "claim %s, which is being deleted", claim.Name)
	case claim.DeletionTimestamp == nil && c.ownerEnded(claim):
		err := c.client.Delete(ctx, client.ResourceClaims, claim.Namespace, claim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(claim.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return loop.Outcome{}, err
		}
		return loop.Acted("deleted claim %s of a pod that has ended", claim.Name), nil
	}
	return loop.Done(), nil
}

// uses tells whether what a claim is reserved for uses it still, or will.
func (c *Cleaner) uses(ctx context.Context, namespace string, ref *resourcev1.ResourceClaimConsumerReference) (bool, error) {
	if ref.APIGroup != "" || ref.Resource != "pods" {
		return true, nil // not ours to say
	}
	pod := client.In[*corev1.Pod](c.pods, namespace, ref.Name)
	if pod == nil || pod.UID != ref.UID {
		// The view may not show it yet, or show one that was before it.
		live, err := client.Get[*corev1.Pod](ctx, c.client, client.Pods, namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		pod = live
	}
	return pod.UID == ref.UID && !controllers.Ended(pod) && (pod.DeletionTimestamp == nil || pod.Spec.NodeName != ""), nil
}

// ownerEnded tells whether a claim was made for a pod that has ended. One whose
// pod is gone is the garbage collector's.
func (c *Cleaner) ownerEnded(claim *resourcev1.ResourceClaim) bool {
	ref := metav1.GetControllerOfNoCopy(claim)
	if ref == nil || ref.Kind != "Pod" || claim.Annotations[podClaim] == "" {
		return false
	}
	pod := client.In[*corev1.Pod](c.pods, claim.Namespace, ref.Name)
	return pod != nil && types.UID(ref.UID) == pod.UID && controllers.Ended(pod)
}
