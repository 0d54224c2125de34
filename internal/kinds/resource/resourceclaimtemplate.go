package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func resourceClaimTemplate() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "resourceclaimtemplates"}, Kind: "ResourceClaimTemplate", Singular: "resourceclaimtemplate",
		Namespaced:               true,
		StoragePrefix:            "/registry/resourceclaimtemplates/",
		Versions:                 []kinds.Version{strategy.Version[resourcev1.ResourceClaimTemplate, resourcev1.ResourceClaimTemplateList](v1, func(r *resourcev1.ResourceClaimTemplate) { defaultClaim(&r.Spec.Spec.Devices) })},
		AllowUnconditionalUpdate: true,
		Validate:                 strategy.Validate(func(r *resourcev1.ResourceClaimTemplate) field.ErrorList { return validateTemplate(r, never) }),
		ValidateUpdate: strategy.ValidateUpdate(func(r, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
			same := apiequality.Semantic.DeepEqual(r.Spec, old.Spec)
			c := check.Errors{List: validateTemplate(r, unchanged(same))}
			if !same {
				c.Immutable(field.NewPath("spec"), "", r.Spec)
			}
			return c.List
		}),
		Columns: strategy.NameAge(),
	}
}

func validateTemplate(r *resourcev1.ResourceClaimTemplate, was stored) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	if m := &r.Spec.ObjectMeta; len(m.Labels)+len(m.Annotations) > 0 {
		c.Add(metavalidation.ValidateLabels(m.Labels, path.Child("metadata", "labels")))
		c.Add(apivalidation.ValidateAnnotations(m.Annotations, path.Child("metadata", "annotations")))
	}
	validateDeviceClaim(&c, &r.Spec.Spec.Devices, was, path.Child("spec", "devices"))
	return c.List
}
