package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Scale reads the scale of an object of any kind that has one, built in or
// custom. NotFound says that there is no such object, or that its kind has no
// scale.
func Scale(ctx context.Context, c client.Interface, res client.Resource, namespace, name string) (*autoscalingv1.Scale, error) {
	base := "/apis/" + res.GroupVersion().String()
	if res.Group == "" {
		base = "/api/" + res.Version
	}
	data, err := c.Raw(ctx, base+"/namespaces/"+namespace+"/"+res.Resource+"/"+name+"/scale", nil)
	if err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{}
	if err := json.Unmarshal(data, scale); err != nil {
		return nil, fmt.Errorf("the scale of %s %s/%s cannot be read: %w", res.Resource, namespace, name, err)
	}
	return scale, nil
}
