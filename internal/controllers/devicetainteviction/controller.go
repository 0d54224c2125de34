// Package devicetainteviction is the loop that makes pods leave devices whose
// taints say NoExecute, unless their claims tolerate it, or until they no
// longer do.
//
// Use: New(options).Run(ctx). Keys are ResourceClaims.
//
// Concurrency: as package loop.
//
// Failure: a pod is told why before it is deleted; both are done again until it
// is gone.
//
// See https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#device-taints-and-tolerations
package devicetainteviction

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/devicetaints"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "devicetainteviction"

// byPool finds slices, and the claims that have devices of them.
const byPool = "pool"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client                      client.Interface
	events                      client.Recorder
	claims, slices, rules, pods client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	all := client.ViewOptions{}
	c := &Controller{client: opts.Client, events: opts.Recorder(), claims: opts.Client.View(client.ResourceClaims, all),
		slices: opts.Client.View(client.ResourceSlices, all), rules: opts.Client.View(client.DeviceTaintRules, all), pods: opts.Client.View(client.Pods, all)}
	c.slices.Index(byPool, poolOf)
	c.claims.Index(byPool, poolsOf)
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

func poolOf(obj client.Object) []string {
	if s, ok := obj.(*resourcev1.ResourceSlice); ok {
		return []string{s.Spec.Driver + "/" + s.Spec.Pool.Name}
	}
	return nil
}

func poolsOf(obj client.Object) (pools []string) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok || claim.Status.Allocation == nil {
		return nil
	}
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		pools = append(pools, r.Driver+"/"+r.Pool)
	}
	slices.Sort(pools)
	return slices.Compact(pools)
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.claims, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.slices, Changed: func(old, new client.Object) {
			if !tainted(old) && !tainted(new) {
				return
			}
			for _, claim := range c.claims.ByIndex(byPool, poolOf(controllers.Present(old, new))[0]) {
				c.Look(controllers.KeyOf(claim))
			}
		}},
		controllers.Input{View: c.rules, Changed: func(_, _ client.Object) {
			for _, claim := range c.claims.List("") { // rules are few and seldom
				c.Look(controllers.KeyOf(claim))
			}
		}},
		controllers.Input{View: c.pods})
}

func tainted(obj client.Object) bool {
	s, ok := obj.(*resourcev1.ResourceSlice)
	return ok && slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool { return len(d.Taints) > 0 })
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	claim := client.In[*resourcev1.ResourceClaim](c.claims, key.Namespace, key.Name)
	if claim == nil || claim.Status.Allocation == nil || len(claim.Status.ReservedFor) == 0 {
		return loop.Done(), nil
	}
	due, why := c.due(claim)
	switch {
	case why == "":
		return loop.Done(), nil
	case time.Until(due) > 0:
		return loop.DoneUntil(time.Until(due)), nil
	}
	for i := range claim.Status.ReservedFor {
		ref := &claim.Status.ReservedFor[i]
		pod := client.In[*corev1.Pod](c.pods, claim.Namespace, ref.Name)
		if ref.APIGroup != "" || ref.Resource != "pods" || pod == nil || pod.UID != ref.UID || pod.DeletionTimestamp != nil || controllers.Ended(pod) {
			continue
		}
		if err := c.evict(ctx, pod, why); err != nil && !apierrors.IsNotFound(err) {
			return loop.Outcome{}, fmt.Errorf("evict pod %s: %w", pod.Name, err)
		}
	}
	return loop.WaitFor("the pods of ResourceClaim "+key.Namespace+"/"+key.Name, "they are to leave: %s", why), nil
}

// due is when the pods of a claim must have left, and why; "" is never.
func (c *Controller) due(claim *resourcev1.ResourceClaim) (due time.Time, why string) {
	rules := client.Listed[*resourcev1.DeviceTaintRule](c.rules, "")
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		for _, taint := range c.taints(r, rules) {
			if taint.Effect != resourcev1.DeviceTaintEffectNoExecute {
				continue
			}
			tolerated, seconds := devicetaints.Tolerates(r.Tolerations, &taint)
			if tolerated && seconds == nil {
				continue
			}
			at := time.Time{}
			if taint.TimeAdded != nil {
				at = taint.TimeAdded.Time
			}
			if tolerated {
				at = at.Add(time.Duration(*seconds) * time.Second)
			}
			if why == "" || at.Before(due) {
				due, why = at, fmt.Sprintf("device %s/%s/%s has taint %s=%s:%s", r.Driver, r.Pool, r.Device, taint.Key, taint.Value, taint.Effect)
			}
		}
	}
	return due, why
}

// taints of an allocated device: those of its slice, and of rules.
func (c *Controller) taints(r *resourcev1.DeviceRequestAllocationResult, rules []*resourcev1.DeviceTaintRule) (taints []resourcev1.DeviceTaint) {
	for _, s := range client.Indexed[*resourcev1.ResourceSlice](c.slices, byPool, r.Driver+"/"+r.Pool) {
		for i := range s.Spec.Devices {
			if s.Spec.Devices[i].Name == r.Device {
				taints = append(taints, s.Spec.Devices[i].Taints...)
			}
		}
	}
	for _, rule := range rules {
		if devicetaints.Applies(rule, r.Driver, r.Pool, r.Device) {
			taints = append(taints, rule.Spec.Taint)
		}
	}
	return taints
}

// evict tells by a condition that a pod did not fail by itself, and deletes it.
func (c *Controller) evict(ctx context.Context, pod *corev1.Pod, why string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "DeletionByDeviceTaintManager", Message: "Device Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.Now().Rfc3339Copy()}}},
	})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(pod.Status.Conditions, func(x corev1.PodCondition) bool {
		return x.Type == corev1.DisruptionTarget && x.Status == corev1.ConditionTrue
	}) {
		if _, err := c.client.Patch(ctx, client.Pods, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, "status"); err != nil {
			return err
		}
	}
	if err := c.client.Delete(ctx, client.Pods, pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}); err != nil {
		return err
	}
	c.events.Event(pod, corev1.EventTypeNormal, "DeviceTaintManagerEviction", "Marking for deletion: %s", why)
	return nil
}
