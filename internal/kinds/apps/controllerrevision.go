package apps

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Controller", "string", "Controller of the object", func(o *appsv1.ControllerRevision) any { return controller(o) }),
			strategy.Column("Revision", "string", appsv1.ControllerRevision{}.SwaggerDoc()["revision"], func(o *appsv1.ControllerRevision) any { return o.Revision }),
			strategy.Age(),
		},
	}
}

// controller names the owner that an object is controlled by: kind.group/name.
func controller(r *appsv1.ControllerRevision) string {
	owner := metav1.GetControllerOf(r)
	if owner == nil {
		return "<none>"
	}
	kind := strings.ToLower(owner.Kind)
	if group, _, ok := strings.Cut(owner.APIVersion, "/"); ok {
		kind += "." + group
	}
	return kind + "/" + owner.Name
}
