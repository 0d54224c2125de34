package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func podTemplate() *kinds.Kind {
	split := strategy.Counted[corev1.PodTemplate]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "podtemplates"}, Kind: "PodTemplate", Singular: "podtemplate",
		Namespaced:               true,
		StoragePrefix:            "/registry/podtemplates/",
		Versions:                 []kinds.Version{strategy.Version[corev1.PodTemplate, corev1.PodTemplateList](v1, func(t *corev1.PodTemplate) { DefaultPodTemplateSpec(&t.Template) })},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validatePodTemplate),
		ValidateUpdate:           strategy.ValidateUpdate(func(t, _ *corev1.PodTemplate) field.ErrorList { return validatePodTemplate(t) }),
		Warnings: strategy.Warnings(func(t, old *corev1.PodTemplate) []string {
			var before *corev1.PodTemplateSpec
			if old != nil {
				before = &old.Template
			}
			return PodTemplateWarnings(&t.Template, before, field.NewPath("template"))
		}),
		Columns: podTemplateColumns(),
	}
}

func validatePodTemplate(t *corev1.PodTemplate) field.ErrorList {
	var c check.Errors
	ValidatePodTemplateSpec(&c, &t.Template, field.NewPath("template"))
	return c.List
}

func podTemplateColumns() []kinds.Column {
	columns := []kinds.Column{strategy.Name()}
	for _, c := range strategy.TemplateColumns(func(t *corev1.PodTemplate) *corev1.PodSpec { return &t.Template.Spec }) {
		c.Priority = 0
		columns = append(columns, c)
	}
	return append(columns, strategy.Column("Pod Labels", "string", "The labels for the pod template.", func(t *corev1.PodTemplate) any { return labels.FormatLabels(t.Template.Labels) }))
}
