package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
)

// PodTopologyLabels tells a pod by labels where its node stands, so that what
// runs in it can read its zone and region from its own metadata.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#podtopologylabels
type PodTopologyLabels struct {
	Get GetFunc
	mutateOnly
}

// topologyLabels are those that a pod gets from its node.
var topologyLabels = [...]string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}

// Name implements Plugin.
func (*PodTopologyLabels) Name() string { return "PodTopologyLabels" }

// Admit implements Plugin. A pod gets its labels with its node: from its
// binding, or when it is made for one.
func (p *PodTopologyLabels) Admit(ctx context.Context, r *Request) error {
	if r.Operation != Create || r.Resource.Group != "" || r.Resource.Resource != "pods" {
		return nil
	}
	node := ""
	switch o := r.Object.(type) {
	case *corev1.Binding:
		if o.Target.Kind == "Node" {
			node = o.Target.Name
		}
	case *corev1.Pod:
		node = o.Spec.NodeName
	}
	if node == "" {
		return nil
	}
	obj, err := p.Get(ctx, client.Nodes, "", node)
	if apierrors.IsNotFound(err) {
		return nil // it may come yet
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("look up node %s: %w", node, err))
	}
	labels := r.Object.GetLabels()
	for _, key := range topologyLabels {
		value, ok := obj.GetLabels()[key]
		if !ok {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	r.Object.SetLabels(labels)
	return nil
}
