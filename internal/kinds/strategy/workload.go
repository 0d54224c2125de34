package strategy

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// TemplateColumns are what a wide table tells of a kind that makes pods: the
// names of their containers and their images.
func TemplateColumns[P kinds.Object](spec func(P) *corev1.PodSpec) []kinds.Column {
	list := func(obj P, part func(*corev1.Container) string) any {
		s := spec(obj)
		if s == nil {
			return ""
		}
		var parts []string
		for i := range s.Containers {
			parts = append(parts, part(&s.Containers[i]))
		}
		return strings.Join(parts, ",")
	}
	return []kinds.Column{
		Wide("Containers", "string", "Names of each container in the template.", func(obj P) any {
			return list(obj, func(c *corev1.Container) string { return c.Name })
		}),
		Wide("Images", "string", "Images referenced by each container in the template.", func(obj P) any {
			return list(obj, func(c *corev1.Container) string { return c.Image })
		}),
	}
}

// SelectorColumn tells in a wide table which pods belong to an object.
func SelectorColumn[P kinds.Object](doc string, selector func(P) *metav1.LabelSelector) kinds.Column {
	return Wide("Selector", "string", doc, func(obj P) any { return metav1.FormatLabelSelector(selector(obj)) })
}

// Count is a number that may be left out.
func Count(n *int32) int64 {
	if n == nil {
		return 0
	}
	return int64(*n)
}
