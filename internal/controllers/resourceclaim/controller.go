// Package resourceclaim holds the two loops that look after ResourceClaims: one
// makes those that pods ask for by a template and tells the pods their names,
// one takes back what pods no longer use.
//
// Use: New(options).Run(ctx), whose keys are pods, and NewCleaner(options), whose
// keys are claims. Allocating devices is the scheduler's.
//
// Concurrency: as package loop. The name of a claim follows from its pod and
// what is there, so that nobody makes it twice.
//
// Failure: a claim is made before the pod is told its name, and found again by
// its owner and annotation after a crash in between.
//
// See https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
package resourceclaim

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop that makes claims.
const Name = "resourceclaim"

// podClaim is the annotation of a claim that was made from a template: which of
// the pod's it is.
const podClaim = "resource.kubernetes.io/pod-claim-name"

// Controller makes claims.
type Controller struct {
	*loop.Loop
	client                  client.Interface
	events                  client.Recorder
	written                 controllers.Written
	pods, claims, templates client.View
}

const byTemplate = "resource claim template"

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	all := client.ViewOptions{}
	c := &Controller{client: opts.Client, events: opts.Recorder(), pods: opts.Client.View(client.Pods, all),
		claims: opts.Client.View(client.ResourceClaims, all), templates: opts.Client.View(client.ResourceClaimTemplates, all)}
	client.IndexByController(c.claims)
	c.pods.Index(byTemplate, func(obj client.Object) (templates []string) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil
		}
		for i := range pod.Spec.ResourceClaims {
			if t := pod.Spec.ResourceClaims[i].ResourceClaimTemplateName; t != nil {
				templates = append(templates, pod.Namespace+"/"+*t)
			}
		}
		slices.Sort(templates)
		return slices.Compact(templates)
	})
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.pods, Changed: func(old, new client.Object) {
			if pod, ok := new.(*corev1.Pod); ok && len(pod.Spec.ResourceClaims) > 0 {
				c.Look(controllers.KeyOf(pod))
			}
		}},
		controllers.Input{View: c.claims, Changed: controllers.LookAtController(c.Loop, "Pod")},
		controllers.Input{View: c.templates, Changed: func(old, new client.Object) {
			obj := controllers.Present(old, new)
			for _, pod := range c.pods.ByIndex(byTemplate, obj.GetNamespace()+"/"+obj.GetName()) {
				c.Look(controllers.KeyOf(pod))
			}
		}})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	pod := client.In[*corev1.Pod](c.pods, key.Namespace, key.Name)
	if pod == nil || pod.DeletionTimestamp != nil || controllers.Ended(pod) {
		return loop.Done(), nil
	}
	mine := client.Indexed[*resourcev1.ResourceClaim](c.claims, client.ByController, string(pod.UID))
	out, told := loop.Done(), []corev1.PodResourceClaimStatus{}
	for i := range pod.Spec.ResourceClaims {
		ref := &pod.Spec.ResourceClaims[i]
		if ref.ResourceClaimTemplateName == nil {
			continue
		}
		name, known := nameOf(pod, ref.Name)
		if known && (name == nil || pod.Spec.NodeName != "" || c.claims.Get(pod.Namespace, *name) != nil) {
			continue // it needs none, has one, or is past needing another
		}
		at := slices.IndexFunc(mine, func(claim *resourcev1.ResourceClaim) bool {
			return claim.Annotations[podClaim] == ref.Name && claim.DeletionTimestamp == nil
		})
		if at >= 0 {
			told = append(told, corev1.PodResourceClaimStatus{Name: ref.Name, ResourceClaimName: &mine[at].Name})
			continue
		}
		template := client.In[*resourcev1.ResourceClaimTemplate](c.templates, pod.Namespace, *ref.ResourceClaimTemplateName)
		if template == nil {
			c.events.Event(pod, corev1.EventTypeWarning, "FailedResourceClaimCreation", "PodResourceClaim %s: resource claim template %q not found", ref.Name, *ref.ResourceClaimTemplateName)
			out = loop.WaitFor("ResourceClaimTemplate "+pod.Namespace+"/"+*ref.ResourceClaimTemplateName, "it is not there, and claim %s is made from it", ref.Name)
			continue // the others are made all the same
		}
		return c.create(ctx, key, pod, ref.Name, template)
	}
	if len(told) > 0 {
		return c.tell(ctx, key, pod, told)
	}
	return out, nil
}

// nameOf is what a pod's status says of a claim: its name, or nil when the pod
// needs none; known is false while it says nothing.
func nameOf(pod *corev1.Pod, claim string) (name *string, known bool) {
	for i := range pod.Status.ResourceClaimStatuses {
		if s := &pod.Status.ResourceClaimStatuses[i]; s.Name == claim {
			return s.ResourceClaimName, true
		}
	}
	return nil, false
}

func (c *Controller) create(ctx context.Context, key loop.Key, pod *corev1.Pod, ref string, template *resourcev1.ResourceClaimTemplate) (loop.Outcome, error) {
	names := podbatch.Seed([]string{string(pod.UID), ref})
	name := names.Next(pod.Name + "-" + ref + "-")
	for c.claims.Get(pod.Namespace, name) != nil { // somebody else's, or one that is going
		name = names.Next(pod.Name + "-" + ref + "-")
	}
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, Labels: template.Spec.Labels, Annotations: map[string]string{podClaim: ref},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
	for k, v := range template.Spec.Annotations {
		if _, ours := claim.Annotations[k]; !ours {
			claim.Annotations[k] = v
		}
	}
	got, err := c.client.Create(ctx, client.ResourceClaims, claim)
	return c.written.Made(key, c.claims, "ResourceClaim", claim, got, err, func(err error) {
		c.events.Event(pod, corev1.EventTypeWarning, "FailedResourceClaimCreation", "PodResourceClaim %s: failed to create: %v", ref, err)
	})
}

// tell writes the names of claims into the pod's status.
func (c *Controller) tell(ctx context.Context, key loop.Key, pod *corev1.Pod, told []corev1.PodResourceClaimStatus) (loop.Outcome, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"resourceClaimStatuses": told}})
	if err != nil {
		return loop.Outcome{}, err
	}
	got, err := c.client.Patch(ctx, client.Pods, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, "status")
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.pods, got, err, "update", "the status of pod %s with the names of its claims", pod.Name)
}
