package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func resourceQuota() *kinds.Kind {
	split := strategy.Of[corev1.ResourceQuota]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "resourcequotas"}, Kind: "ResourceQuota", Singular: "resourcequota",
		ShortNames: []string{"quota"}, Namespaced: true,
		StoragePrefix:            "/registry/resourcequotas/",
		Versions:                 []kinds.Version{strategy.Version[corev1.ResourceQuota, corev1.ResourceQuotaList](v1, func(q *corev1.ResourceQuota) { roundUp(q.Spec.Hard); roundUp(q.Status.Hard); roundUp(q.Status.Used) })},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateResourceQuota),
		ValidateUpdate:           strategy.ValidateUpdate(validateResourceQuotaUpdate),
		Subresources: map[string]*kinds.Subresource{
			"status": {Verbs: strategy.View(), PrepareUpdate: split.PrepareStatus, ValidateUpdate: strategy.ValidateUpdate(validateResourceQuotaStatus)},
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Request", "string", "Request represents a minimum amount of cpu/memory that a container may consume.", func(o *corev1.ResourceQuota) any { return quota(o, false) }),
			strategy.Column("Limit", "string", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.", func(o *corev1.ResourceQuota) any { return quota(o, true) }),
			strategy.Age(),
		},
	}
}

// quota shows what is used of what may be, of limits or of all else.
func quota(q *corev1.ResourceQuota, limits bool) string {
	var parts []string
	for _, name := range sorted(q.Status.Hard) {
		if strings.HasPrefix(string(name), "limits.") == limits {
			used, hard := q.Status.Used[name], q.Status.Hard[name]
			parts = append(parts, fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String()))
		}
	}
	return strings.Join(parts, ", ")
}
