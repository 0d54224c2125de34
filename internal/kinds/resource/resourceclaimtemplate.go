package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func resourceClaimTemplate() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "resourceclaimtemplates"}, Kind: "ResourceClaimTemplate", Singular: "resourceclaimtemplate",
		Namespaced:               true,
		StoragePrefix:            "/registry/resourceclaimtemplates/",
		Versions:                 []kinds.Version{strategy.Version[resourcev1.ResourceClaimTemplate, resourcev1.ResourceClaimTemplateList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Columns:                  strategy.NameAge(),
	}
}
