package admission

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
)

var ingressClasses = client.Resource{Group: "networking.k8s.io", Version: "v1", Resource: "ingressclasses"}

// oldIngressClass named the class of an ingress before the field did.
const oldIngressClass = "kubernetes.io/ingress.class"

// DefaultIngressClass gives a new ingress that names no class the one that is
// marked as default.
// https://kubernetes.io/docs/concepts/services-networking/ingress/#default-ingress-class
type DefaultIngressClass struct {
	List ListFunc
	mutateOnly
}

// Name implements Plugin.
func (*DefaultIngressClass) Name() string { return "DefaultIngressClass" }

// Admit implements Plugin.
func (p *DefaultIngressClass) Admit(ctx context.Context, r *Request) error {
	in := objectAs[*networkingv1.Ingress](r, "networking.k8s.io", "ingresses")
	if in == nil || r.Operation != Create || in.Spec.IngressClassName != nil {
		return nil
	}
	if _, ok := in.Annotations[oldIngressClass]; ok {
		return nil
	}
	list, err := p.List(ctx, ingressClasses, "")
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("look up the default ingress class: %w", err))
	}
	// Of several the youngest; of two as young, the first by name.
	var found *networkingv1.IngressClass
	for _, obj := range list {
		class, ok := obj.(*networkingv1.IngressClass)
		if !ok || class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true" {
			continue
		}
		if found == nil || found.CreationTimestamp.Before(&class.CreationTimestamp) ||
			found.CreationTimestamp.Equal(&class.CreationTimestamp) && class.Name < found.Name {
			found = class
		}
	}
	if found != nil {
		in.Spec.IngressClassName = new(found.Name)
	}
	return nil
}
