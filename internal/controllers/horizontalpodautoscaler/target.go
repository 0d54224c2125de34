package horizontalpodautoscaler

import (
	"context"
	"fmt"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// kinds finds the resources of kinds, built in or custom. What it found it
// remembers until it turns out wrong.
type kinds struct {
	client client.Interface

	mu    sync.Mutex
	known map[schema.GroupKind]client.ResourceInfo // guarded by mu
}

// find finds the resource of a kind; the version that the group prefers
// serves, whatever the reference says.
func (k *kinds) find(ctx context.Context, apiVersion, kind string) (client.ResourceInfo, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return client.ResourceInfo{}, fmt.Errorf("invalid API version in scale target reference: %w", err)
	}
	want := schema.GroupKind{Group: gv.Group, Kind: kind}
	k.mu.Lock()
	r, ok := k.known[want]
	k.mu.Unlock()
	if ok {
		return r, nil
	}
	served, err := k.client.Resources(ctx)
	if err != nil {
		return r, err
	}
	for _, r := range served {
		if r.Kind == kind && r.Resource.Group == gv.Group {
			k.mu.Lock()
			if k.known == nil {
				k.known = map[schema.GroupKind]client.ResourceInfo{}
			}
			k.known[want] = r
			k.mu.Unlock()
			return r, nil
		}
	}
	return r, fmt.Errorf("unable to determine resource for scale target reference: no matches for kind %q in group %q", kind, gv.Group)
}

func (k *kinds) forget(apiVersion, kind string) {
	gv, _ := schema.ParseGroupVersion(apiVersion)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, schema.GroupKind{Group: gv.Group, Kind: kind})
}

// scaleOf reads the scale of a target.
func (c *Controller) scaleOf(ctx context.Context, h *autoscalingv2.HorizontalPodAutoscaler) (client.Resource, *autoscalingv1.Scale, error) {
	ref := h.Spec.ScaleTargetRef
	r, err := c.kinds.find(ctx, ref.APIVersion, ref.Kind)
	if err != nil {
		return r.Resource, nil, err
	}
	scale, err := controllers.Scale(ctx, c.client, r.Resource, h.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		c.kinds.forget(ref.APIVersion, ref.Kind) // the kind itself may have gone
	}
	return r.Resource, scale, err
}
