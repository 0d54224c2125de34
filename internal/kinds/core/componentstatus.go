package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

// componentStatus is not stored: whoever runs the server says how its parts
// are. Upstream has deprecated it, and warns whoever asks.
// https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/component-status-v1/
func componentStatus() *kinds.Kind {
	version := strategy.Version[corev1.ComponentStatus, corev1.ComponentStatusList](v1, nil)
	version.Warning = "v1 ComponentStatus is deprecated in v1.19+"
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "componentstatuses"}, Kind: "ComponentStatus", Singular: "componentstatus",
		ShortNames: []string{"cs"},
		Versions:   []kinds.Version{version},
		NoVerbs:    []string{"create", "delete", "deletecollection", "patch", "update", "watch"},
		Columns: []kinds.Column{
			strategy.Name(),
			componentColumn("Status", "Status of the component conditions", func(c *corev1.ComponentCondition) any {
				switch c.Status {
				case corev1.ConditionTrue:
					return "Healthy"
				case corev1.ConditionFalse:
					return "Unhealthy"
				}
				return "Unknown"
			}),
			componentColumn("Message", "Message of the component conditions", func(c *corev1.ComponentCondition) any { return c.Message }),
			componentColumn("Error", "Error of the component conditions", func(c *corev1.ComponentCondition) any { return c.Error }),
		},
	}
}

// componentColumn shows something of the condition Healthy.
func componentColumn(name, description string, cell func(*corev1.ComponentCondition) any) kinds.Column {
	return strategy.Column(name, "string", description, func(s *corev1.ComponentStatus) any {
		healthy := &corev1.ComponentCondition{}
		for i := range s.Conditions {
			if s.Conditions[i].Type == corev1.ComponentHealthy {
				healthy = &s.Conditions[i]
			}
		}
		return cell(healthy)
	})
}
