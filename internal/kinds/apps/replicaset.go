package apps

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func replicaSet() *kinds.Kind {
	split := strategy.Counted[appsv1.ReplicaSet]()
	status := split.Status()
	status.ValidateUpdate = strategy.ValidateUpdate(validateReplicaSetStatus)
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "replicasets"}, Kind: "ReplicaSet", Singular: "replicaset",
		ShortNames: []string{"rs"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/replicasets/",
		Versions:                 []kinds.Version{strategy.Version[appsv1.ReplicaSet, appsv1.ReplicaSetList](v1, defaultReplicaSet)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateReplicaSet),
		ValidateUpdate: strategy.ValidateUpdate(func(r, old *appsv1.ReplicaSet) field.ErrorList {
			c := check.Errors{List: validateReplicaSet(r)}
			selectorKept(&c, r.Spec.Selector, old.Spec.Selector)
			return c.List
		}),
		Warnings: strategy.Warnings(func(r, old *appsv1.ReplicaSet) []string {
			var before *corev1.PodTemplateSpec
			if old != nil {
				before = &old.Spec.Template
			}
			return core.WorkloadWarnings(r.Name, &r.Spec.Template, before, field.NewPath("spec", "template"))
		}),
		Subresources: map[string]*kinds.Subresource{
			"scale": strategy.Scale(func(r *appsv1.ReplicaSet) strategy.Replicas {
				return strategy.Replicas{Want: &r.Spec.Replicas, Have: r.Status.Replicas, Selector: strategy.Selector(r.Spec.Selector)}
			}),
			"status": status,
		},
		SelectableFields: strategy.Fields(func(r *appsv1.ReplicaSet) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(r.Status.Replicas))}
		}),
		FieldNames: []string{"status.replicas"},
		Columns:    replicaSetColumns(),
	}
}

func replicaSetColumns() []kinds.Column {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	columns := []kinds.Column{
		strategy.Name(),
		strategy.Column("Desired", "integer", spec["replicas"], func(r *appsv1.ReplicaSet) any { return strategy.Count(r.Spec.Replicas) }),
		strategy.Column("Current", "integer", status["replicas"], func(r *appsv1.ReplicaSet) any { return int64(r.Status.Replicas) }),
		strategy.Column("Ready", "integer", status["readyReplicas"], func(r *appsv1.ReplicaSet) any { return int64(r.Status.ReadyReplicas) }),
		strategy.Age(),
	}
	columns = append(columns, strategy.TemplateColumns(func(r *appsv1.ReplicaSet) *corev1.PodSpec { return &r.Spec.Template.Spec })...)
	return append(columns, strategy.SelectorColumn(spec["selector"], func(r *appsv1.ReplicaSet) *metav1.LabelSelector { return r.Spec.Selector }))
}

func defaultReplicaSet(r *appsv1.ReplicaSet) {
	if r.Spec.Replicas == nil {
		r.Spec.Replicas = new(int32(1))
	}
	core.DefaultPodTemplateSpec(&r.Spec.Template)
}

func validateReplicaSet(r *appsv1.ReplicaSet) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	c.NonNegative(path, "replicas", strategy.Count(r.Spec.Replicas))
	c.NonNegative(path, "minReadySeconds", int64(r.Spec.MinReadySeconds))
	validateSelectorAndTemplate(&c, r.Spec.Selector, &r.Spec.Template, path, "deployment", "ReplicaSet") // upstream's word here too
	return c.List
}

func validateReplicaSetStatus(r, _ *appsv1.ReplicaSet) field.ErrorList {
	var c check.Errors
	s, path := &r.Status, field.NewPath("status")
	c.NonNegative(path, "replicas", int64(s.Replicas))
	c.NonNegative(path, "fullyLabeledReplicas", int64(s.FullyLabeledReplicas))
	c.NonNegative(path, "readyReplicas", int64(s.ReadyReplicas))
	c.NonNegative(path, "availableReplicas", int64(s.AvailableReplicas))
	c.NonNegative(path, "terminatingReplicas", strategy.Count(s.TerminatingReplicas))
	c.NonNegative(path, "observedGeneration", s.ObservedGeneration)
	noMore(&c, path, "fullyLabeledReplicas", s.FullyLabeledReplicas, s.Replicas, "status.replicas")
	noMore(&c, path, "readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas")
	noMore(&c, path, "availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas")
	noMore(&c, path, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
	return c.List
}
