package core

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func replicationController() *kinds.Kind {
	split := strategy.Counted[corev1.ReplicationController]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "replicationcontrollers"}, Kind: "ReplicationController", Singular: "replicationcontroller",
		ShortNames: []string{"rc"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/controllers/",
		Versions:                 []kinds.Version{strategy.Version[corev1.ReplicationController, corev1.ReplicationControllerList](v1, defaultReplicationController)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateReplicationController),
		ValidateUpdate: strategy.ValidateUpdate(func(r, _ *corev1.ReplicationController) field.ErrorList {
			return validateReplicationController(r)
		}),
		Warnings: strategy.Warnings(func(r, old *corev1.ReplicationController) []string {
			if r.Spec.Template == nil {
				return nil
			}
			var before *corev1.PodTemplateSpec
			if old != nil && old.Spec.Template != nil {
				before = old.Spec.Template
			}
			return WorkloadWarnings(r.Name, r.Spec.Template, before, field.NewPath("spec", "template"))
		}),
		Subresources: map[string]*kinds.Subresource{
			"scale": strategy.Scale(func(r *corev1.ReplicationController) strategy.Replicas {
				return strategy.Replicas{Want: &r.Spec.Replicas, Have: r.Status.Replicas, Selector: labels.Set(r.Spec.Selector).String()}
			}),
			"status": {Verbs: strategy.View(), PrepareUpdate: split.PrepareStatus, ValidateUpdate: strategy.ValidateUpdate(validateReplicationControllerStatus)},
		},
		SelectableFields: strategy.Fields(func(r *corev1.ReplicationController) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(r.Status.Replicas))}
		}),
		FieldNames: []string{"status.replicas"},
		Columns:    replicationControllerColumns(),
	}
}

func replicationControllerColumns() []kinds.Column {
	spec, status := corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc()
	columns := []kinds.Column{
		strategy.Name(),
		strategy.Column("Desired", "integer", spec["replicas"], func(r *corev1.ReplicationController) any { return strategy.Count(r.Spec.Replicas) }),
		strategy.Column("Current", "integer", status["replicas"], func(r *corev1.ReplicationController) any { return int64(r.Status.Replicas) }),
		strategy.Column("Ready", "integer", status["readyReplicas"], func(r *corev1.ReplicationController) any { return int64(r.Status.ReadyReplicas) }),
		strategy.Age(),
	}
	columns = append(columns, strategy.TemplateColumns(func(r *corev1.ReplicationController) *corev1.PodSpec {
		if r.Spec.Template == nil {
			return nil
		}
		return &r.Spec.Template.Spec
	})...)
	return append(columns, strategy.Wide("Selector", "string", spec["selector"], func(r *corev1.ReplicationController) any { return labels.FormatLabels(r.Spec.Selector) }))
}

func defaultReplicationController(r *corev1.ReplicationController) {
	if t := r.Spec.Template; t != nil {
		if len(t.Labels) > 0 && len(r.Spec.Selector) == 0 {
			r.Spec.Selector = maps.Clone(t.Labels)
		}
		if len(t.Labels) > 0 && len(r.Labels) == 0 {
			r.Labels = maps.Clone(t.Labels)
		}
		DefaultPodTemplateSpec(t)
	}
	if r.Spec.Replicas == nil {
		r.Spec.Replicas = new(int32(1))
	}
}

func validateReplicationController(r *corev1.ReplicationController) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	c.NonNegative(path, "minReadySeconds", int64(r.Spec.MinReadySeconds))
	if len(r.Spec.Selector) == 0 {
		c.Required(path, "selector", "")
	}
	c.NonNegative(path, "replicas", strategy.Count(r.Spec.Replicas))
	t, p := r.Spec.Template, path.Child("template")
	if t == nil {
		c.Required(p, "", "")
		return c.List
	}
	if len(r.Spec.Selector) > 0 && !labels.Set(r.Spec.Selector).AsSelector().Matches(labels.Set(t.Labels)) {
		c.Invalid(p.Child("metadata"), "labels", t.Labels, "`selector` does not match template `labels`")
	}
	ValidatePodTemplateSpec(&c, t, p)
	check.Among(&c, p.Child("spec"), "restartPolicy", t.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	if t.Spec.ActiveDeadlineSeconds != nil {
		c.Forbidden(p.Child("spec"), "activeDeadlineSeconds", "activeDeadlineSeconds in ReplicationController is not Supported")
	}
	return c.List
}

func validateReplicationControllerStatus(r, _ *corev1.ReplicationController) field.ErrorList {
	var c check.Errors
	s, path := &r.Status, field.NewPath("status")
	c.NonNegative(path, "replicas", int64(s.Replicas))
	c.NonNegative(path, "fullyLabeledReplicas", int64(s.FullyLabeledReplicas))
	c.NonNegative(path, "readyReplicas", int64(s.ReadyReplicas))
	c.NonNegative(path, "availableReplicas", int64(s.AvailableReplicas))
	c.NonNegative(path, "observedGeneration", s.ObservedGeneration)
	noMore := func(name string, n, of int32, what string) {
		if n > of {
			c.Invalid(path, name, n, "cannot be greater than "+what)
		}
	}
	noMore("fullyLabeledReplicas", s.FullyLabeledReplicas, s.Replicas, "status.replicas")
	noMore("readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas")
	noMore("availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas")
	noMore("availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
	return c.List
}
