package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func controllerRevision() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "controllerrevisions"}, Kind: "ControllerRevision", Singular: "controllerrevision",
		Namespaced:               true,
		StoragePrefix:            "/registry/controllerrevisions/",
		Versions:                 []kinds.Version{strategy.Version[appsv1.ControllerRevision, appsv1.ControllerRevisionList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Columns:                  strategy.NameAge(),
	}
}
