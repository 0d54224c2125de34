package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func daemonSet() *kinds.Kind {
	split := strategy.Counted[appsv1.DaemonSet]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "daemonsets"}, Kind: "DaemonSet", Singular: "daemonset",
		ShortNames: []string{"ds"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/daemonsets/",
		Versions:                 []kinds.Version{strategy.Version[appsv1.DaemonSet, appsv1.DaemonSetList](v1, defaultDaemonSet)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateDaemonSet),
		ValidateUpdate: strategy.ValidateUpdate(func(d, old *appsv1.DaemonSet) field.ErrorList {
			c := check.Errors{List: validateDaemonSet(d)}
			selectorKept(&c, d.Spec.Selector, old.Spec.Selector)
			return c.List
		}),
		Warnings: strategy.Warnings(func(d, old *appsv1.DaemonSet) []string {
			var before *corev1.PodTemplateSpec
			if old != nil {
				before = &old.Spec.Template
			}
			return core.PodTemplateWarnings(&d.Spec.Template, before, field.NewPath("spec", "template"))
		}),
		Subresources: map[string]*kinds.Subresource{"status": {
			Verbs: strategy.View(), PrepareUpdate: split.PrepareStatus, ValidateUpdate: strategy.ValidateUpdate(validateDaemonSetStatus),
		}},
		Columns: daemonSetColumns(),
	}
}

func daemonSetColumns() []kinds.Column {
	status := appsv1.DaemonSetStatus{}.SwaggerDoc()
	number := func(name, doc string, n func(*appsv1.DaemonSetStatus) int32) kinds.Column {
		return strategy.Column(name, "integer", status[doc], func(d *appsv1.DaemonSet) any { return int64(n(&d.Status)) })
	}
	columns := []kinds.Column{
		strategy.Name(),
		number("Desired", "desiredNumberScheduled", func(s *appsv1.DaemonSetStatus) int32 { return s.DesiredNumberScheduled }),
		number("Current", "currentNumberScheduled", func(s *appsv1.DaemonSetStatus) int32 { return s.CurrentNumberScheduled }),
		number("Ready", "numberReady", func(s *appsv1.DaemonSetStatus) int32 { return s.NumberReady }),
		number("Up-to-date", "updatedNumberScheduled", func(s *appsv1.DaemonSetStatus) int32 { return s.UpdatedNumberScheduled }),
		number("Available", "numberAvailable", func(s *appsv1.DaemonSetStatus) int32 { return s.NumberAvailable }),
		strategy.Column("Node Selector", "string", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"], func(d *appsv1.DaemonSet) any {
			return labels.FormatLabels(d.Spec.Template.Spec.NodeSelector)
		}),
		strategy.Age(),
	}
	columns = append(columns, strategy.TemplateColumns(func(d *appsv1.DaemonSet) *corev1.PodSpec { return &d.Spec.Template.Spec })...)
	return append(columns, strategy.SelectorColumn(appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"], func(d *appsv1.DaemonSet) *metav1.LabelSelector { return d.Spec.Selector }))
}

func defaultDaemonSet(d *appsv1.DaemonSet) {
	spec := &d.Spec
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if spec.UpdateStrategy.RollingUpdate == nil {
			spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		r := spec.UpdateStrategy.RollingUpdate
		if r.MaxUnavailable == nil {
			r.MaxUnavailable = new(intstr.FromInt32(1))
		}
		if r.MaxSurge == nil {
			r.MaxSurge = new(intstr.FromInt32(0))
		}
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(10))
	}
	core.DefaultPodTemplateSpec(&spec.Template)
}

func validateDaemonSet(d *appsv1.DaemonSet) field.ErrorList {
	var c check.Errors
	spec, path := &d.Spec, field.NewPath("spec")
	validateSelectorAndTemplate(&c, spec.Selector, &spec.Template, path, "daemonset", "DaemonSet")
	c.NonNegative(path, "minReadySeconds", int64(spec.MinReadySeconds))
	validateDaemonUpdates(&c, &spec.UpdateStrategy, path.Child("updateStrategy"))
	c.NonNegative(path, "revisionHistoryLimit", strategy.Count(spec.RevisionHistoryLimit))
	return c.List
}

func validateDaemonUpdates(c *check.Errors, s *appsv1.DaemonSetUpdateStrategy, path *field.Path) {
	if s.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		check.Among(c, path, "type", s.Type, appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType)
		return
	}
	if s.RollingUpdate == nil {
		c.Required(path, "rollingUpdate", "")
		return
	}
	p := path.Child("rollingUpdate")
	unavailable, surge := amount(s.RollingUpdate.MaxUnavailable), amount(s.RollingUpdate.MaxSurge)
	c.Amount(p, "maxUnavailable", unavailable)
	c.Amount(p, "maxSurge", surge)
	c.AtMostAll(p, "maxUnavailable", unavailable)
	c.AtMostAll(p, "maxSurge", surge)
	switch u, s := number(unavailable) > 0, number(surge) > 0; {
	case u && s:
		c.Invalid(p, "maxSurge", surge, "may not be set when maxUnavailable is non-zero")
	case !u && !s:
		c.Required(p, "maxUnavailable", "cannot be 0 when maxSurge is 0")
	}
}

func validateDaemonSetStatus(d, old *appsv1.DaemonSet) field.ErrorList {
	var c check.Errors
	s, path := &d.Status, field.NewPath("status")
	c.NonNegative(path, "currentNumberScheduled", int64(s.CurrentNumberScheduled))
	c.NonNegative(path, "numberMisscheduled", int64(s.NumberMisscheduled))
	c.NonNegative(path, "desiredNumberScheduled", int64(s.DesiredNumberScheduled))
	c.NonNegative(path, "numberReady", int64(s.NumberReady))
	c.NonNegative(path, "observedGeneration", s.ObservedGeneration)
	c.NonNegative(path, "updatedNumberScheduled", int64(s.UpdatedNumberScheduled))
	c.NonNegative(path, "numberAvailable", int64(s.NumberAvailable))
	c.NonNegative(path, "numberUnavailable", int64(s.NumberUnavailable))
	c.NonNegative(path, "collisionCount", strategy.Count(s.CollisionCount))
	onlyRises(&c, path, "collisionCount", s.CollisionCount, old.Status.CollisionCount)
	return c.List
}
