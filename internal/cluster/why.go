package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// WhyPath is where the API server tells why a pod is where it is, or nowhere:
// ?namespace=NAMESPACE&pod=NAME.
const WhyPath = "/setpoint/v1/why"

// Why tells why a pod is on no node, node by node.
type Why struct {
	// Node that the pod is on; then nothing else is told.
	Node string `json:"node,omitempty"`
	// Message is the pod's PodScheduled condition.
	Message string `json:"message,omitempty"`
	// Refused has, for each node that refuses it now, why.
	Refused map[string][]string `json:"refused,omitempty"`
	// Fits are the nodes that would take it now.
	Fits []string `json:"fits,omitempty"`
	// Helps are the changes after which the scheduler tries again.
	Helps []string `json:"helps,omitempty"`
}

// explainer is the scheduler.
type explainer interface {
	Explain(ctx context.Context, namespace, name string) (*scheduler.Diagnosis, error)
}

// explainer is the scheduler of this process; nil: it runs elsewhere.
func (g *gapList) explainer() explainer {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.loops {
		if e, ok := l.(explainer); ok {
			return e
		}
	}
	return nil
}

// serveWhy answers WhyPath.
func (c *controlPlane) serveWhy(w http.ResponseWriter, r *http.Request) {
	why, err := c.why(r.Context(), r.URL.Query().Get("namespace"), r.URL.Query().Get("pod"))
	if err != nil {
		status, ok := err.(*apierrors.StatusError)
		if !ok {
			status = apierrors.NewInternalError(err)
		}
		refuse(w, status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(why)
}

func (c *controlPlane) why(ctx context.Context, namespace, name string) (*Why, error) {
	if namespace == "" || name == "" {
		return nil, apierrors.NewBadRequest("namespace and pod are required")
	}
	obj, err := c.get(ctx, client.Pods, namespace, name)
	if err != nil {
		return nil, err
	}
	pod := obj.(*corev1.Pod)
	why := &Why{Node: pod.Spec.NodeName}
	if why.Node != "" {
		return why, nil
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			why.Message = condition.Message
		}
	}
	e := c.gaps.explainer()
	if e == nil {
		return why, nil // all that is known is what the scheduler wrote
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	d, err := e.Explain(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if d != nil {
		why.Refused, why.Fits, why.Helps = d.Refused, d.Fits, d.Helps
	}
	return why, nil
}
