package apps

import (
	"bytes"
	"encoding/json"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func controllerRevision() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "controllerrevisions"}, Kind: "ControllerRevision", Singular: "controllerrevision",
		Namespaced:               true,
		StoragePrefix:            "/registry/controllerrevisions/",
		Versions:                 []kinds.Version{strategy.Version[appsv1.ControllerRevision, appsv1.ControllerRevisionList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Validate:                 strategy.Validate(validateControllerRevision),
		ValidateUpdate: strategy.ValidateUpdate(func(r, old *appsv1.ControllerRevision) field.ErrorList {
			c := check.Errors{List: validateControllerRevision(r)}
			if !bytes.Equal(r.Data.Raw, old.Data.Raw) {
				c.Immutable(field.NewPath("data"), "", r.Data)
			}
			return c.List
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Controller", "string", "Controller of the object", func(o *appsv1.ControllerRevision) any { return controller(o) }),
			strategy.Column("Revision", "string", appsv1.ControllerRevision{}.SwaggerDoc()["revision"], func(o *appsv1.ControllerRevision) any { return o.Revision }),
			strategy.Age(),
		},
	}
}

// validateControllerRevision: a revision is of use only if it can be read back.
func validateControllerRevision(r *appsv1.ControllerRevision) field.ErrorList {
	var c check.Errors
	c.NonNegative(field.NewPath("revision"), "", r.Revision)
	if len(r.Data.Raw) == 0 {
		c.Required(field.NewPath("data"), "", "data is mandatory")
		return c.List
	}
	var object map[string]any
	if err := json.Unmarshal(r.Data.Raw, &object); err != nil {
		c.Invalid(field.NewPath("data"), "", "<value omitted>", "error parsing data: "+err.Error())
	}
	return c.List
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
