package node

import (
	nodev1 "k8s.io/api/node/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func runtimeClass() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "runtimeclasses"}, Kind: "RuntimeClass", Singular: "runtimeclass",
		StoragePrefix: "/registry/runtimeclasses/",
		Versions:      []kinds.Version{strategy.Version[nodev1.RuntimeClass, nodev1.RuntimeClassList](v1, nil)},
		Validate:      strategy.Validate(validateRuntimeClass),
		ValidateUpdate: strategy.ValidateUpdate(func(r, old *nodev1.RuntimeClass) field.ErrorList {
			var c check.Errors
			if r.Handler != old.Handler {
				c.Immutable(field.NewPath("handler"), "", r.Handler)
			}
			return c.List
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Handler", "string", nodev1.RuntimeClass{}.SwaggerDoc()["handler"], func(o *nodev1.RuntimeClass) any { return o.Handler }),
			strategy.Age(),
		},
	}
}

func validateRuntimeClass(r *nodev1.RuntimeClass) field.ErrorList {
	var c check.Errors
	c.Label(field.NewPath("handler"), "", r.Handler)
	if r.Overhead != nil {
		core.ValidateOverhead(&c, r.Overhead.PodFixed, field.NewPath("overhead"))
	}
	if s := r.Scheduling; s != nil {
		path := field.NewPath("scheduling")
		if len(s.NodeSelector) > 0 {
			c.Add(metavalidation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector")))
		}
		core.ValidateTolerations(&c, s.Tolerations, path.Child("tolerations"))
	}
	return c.List
}
