// Package policystatus is the loop that tells who writes a
// ValidatingAdmissionPolicy what in its expressions does not fit the kinds that
// it is for: a field that they have not, a number held against a text. Such a
// policy holds all the same; an expression of that kind fails when it is asked.
//
//	policy --named resources--> kinds --OpenAPI--> schemas
//	            expressions  <--types of CEL--------'
//	                  `--> status.typeChecking, status.observedGeneration
//
// A policy is checked once for each generation. Kinds that are defined later
// are not looked at, as upstream.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#type-checking.
package policystatus

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "policystatus"

// Policies is the resource of ValidatingAdmissionPolicies.
var Policies = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")

// Controller is the loop, wired. Its keys are policies, by name.
type Controller struct {
	*loop.Loop
	client   client.Interface
	written  controllers.Written
	policies client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{client: opts.Client, policies: opts.Client.View(Policies, client.ViewOptions{})}
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.policies, Changed: controllers.LookWhere(c.Loop, unchecked)})
}

func unchecked(p *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	return p.Status.ObservedGeneration < p.Generation
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	p := client.In[*admissionregistrationv1.ValidatingAdmissionPolicy](c.policies, "", key.Name)
	if p == nil || p.DeletionTimestamp != nil || !unchecked(p) {
		return loop.Done(), nil
	}
	kinds, params, err := c.types(ctx, p)
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("find the types of the policy's kinds: %w", err)
	}
	changed := p.DeepCopy()
	changed.Status.ObservedGeneration = p.Generation
	changed.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: check(p, kinds, params)}
	got, err := c.client.Update(ctx, Policies, changed, "status")
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.policies, got, err, "change", "the status")
}

// types are the kinds that a policy names, and that of its parameters, as far
// as somebody publishes them.
func (c *Controller) types(ctx context.Context, p *admissionregistrationv1.ValidatingAdmissionPolicy) (kinds []typed, params *spec.Schema, err error) {
	from := &schemas{client: c.client, documents: map[schema.GroupVersion]*document{}}
	if kind := p.Spec.ParamKind; kind != nil {
		if params, err = from.of(ctx, schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)); err != nil {
			return nil, nil, err
		}
	}
	resources := named(p)
	if len(resources) == 0 {
		return nil, params, nil
	}
	infos, err := c.client.Resources(ctx)
	if err != nil {
		return nil, nil, err
	}
	kindOf := make(map[schema.GroupResource]string, len(infos))
	for _, info := range infos {
		kindOf[info.Resource.GroupResource()] = info.Kind
	}
	seen := map[schema.GroupVersionKind]bool{}
	for _, res := range resources {
		gvk := res.GroupVersion().WithKind(kindOf[res.GroupResource()])
		if gvk.Kind == "" || seen[gvk] || len(kinds) == mostKinds {
			continue
		}
		seen[gvk] = true
		s, err := from.of(ctx, gvk)
		if err != nil {
			return nil, nil, err
		}
		if s != nil {
			kinds = append(kinds, typed{kind: gvk, schema: s})
		}
	}
	return kinds, params, nil
}
