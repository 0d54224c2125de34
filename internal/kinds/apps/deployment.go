package apps

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func deployment() *kinds.Kind {
	split := strategy.Counted[appsv1.Deployment]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "deployments"}, Kind: "Deployment", Singular: "deployment",
		ShortNames: []string{"deploy"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/deployments/",
		Versions:                 []kinds.Version{strategy.Version[appsv1.Deployment, appsv1.DeploymentList](v1, defaultDeployment)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate: func(ctx context.Context, obj, old kinds.Object) {
			split.PrepareUpdate(ctx, obj, old)
			// Annotations of a deployment are part of what it claims: they go
			// over to its replica sets.
			if !maps.Equal(obj.GetAnnotations(), old.GetAnnotations()) {
				obj.SetGeneration(old.GetGeneration() + 1)
			}
		},
		Validate:       strategy.Validate(validateDeployment),
		ValidateUpdate: strategy.ValidateUpdate(validateDeploymentUpdate),
		Warnings: strategy.Warnings(func(d, old *appsv1.Deployment) []string {
			var before *corev1.PodTemplateSpec
			if old != nil {
				before = &old.Spec.Template
			}
			return core.WorkloadWarnings(d.Name, &d.Spec.Template, before, field.NewPath("spec", "template"))
		}),
		Subresources: map[string]*kinds.Subresource{
			"scale": strategy.Scale(func(d *appsv1.Deployment) strategy.Replicas {
				return strategy.Replicas{Want: &d.Spec.Replicas, Have: d.Status.Replicas, Selector: strategy.Selector(d.Spec.Selector)}
			}),
			"status": {
				Verbs: strategy.View(),
				PrepareUpdate: func(ctx context.Context, obj, old kinds.Object) {
					split.PrepareStatus(ctx, obj, old)
					obj.SetLabels(old.GetLabels())
				},
				ValidateUpdate: strategy.ValidateUpdate(validateDeploymentStatus),
			},
		},
		Columns: deploymentColumns(),
	}
}

func deploymentColumns() []kinds.Column {
	status := appsv1.DeploymentStatus{}.SwaggerDoc()
	columns := []kinds.Column{
		strategy.Name(),
		strategy.Column("Ready", "string", "Number of the pod with ready state", func(d *appsv1.Deployment) any {
			return fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, strategy.Count(d.Spec.Replicas))
		}),
		strategy.Column("Up-to-date", "string", status["updatedReplicas"], func(d *appsv1.Deployment) any { return int64(d.Status.UpdatedReplicas) }),
		strategy.Column("Available", "string", status["availableReplicas"], func(d *appsv1.Deployment) any { return int64(d.Status.AvailableReplicas) }),
		strategy.Age(),
	}
	columns = append(columns, strategy.TemplateColumns(func(d *appsv1.Deployment) *corev1.PodSpec { return &d.Spec.Template.Spec })...)
	return append(columns, strategy.SelectorColumn(appsv1.DeploymentSpec{}.SwaggerDoc()["selector"], func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector }))
}

func defaultDeployment(d *appsv1.Deployment) {
	spec := &d.Spec
	if spec.Replicas == nil {
		spec.Replicas = new(int32(1))
	}
	if spec.Strategy.Type == "" {
		spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if spec.Strategy.RollingUpdate == nil {
			spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		r := spec.Strategy.RollingUpdate
		if r.MaxUnavailable == nil {
			r.MaxUnavailable = new(intstr.FromString("25%"))
		}
		if r.MaxSurge == nil {
			r.MaxSurge = new(intstr.FromString("25%"))
		}
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(10))
	}
	if spec.ProgressDeadlineSeconds == nil {
		spec.ProgressDeadlineSeconds = new(int32(600))
	}
	core.DefaultPodTemplateSpec(&spec.Template)
}

func validateDeployment(d *appsv1.Deployment) field.ErrorList {
	var c check.Errors
	spec, path := &d.Spec, field.NewPath("spec")
	c.NonNegative(path, "replicas", strategy.Count(spec.Replicas))
	validateSelectorAndTemplate(&c, spec.Selector, &spec.Template, path, "deployment", "ReplicaSet")
	validateStrategy(&c, &spec.Strategy, path.Child("strategy"))
	c.NonNegative(path, "minReadySeconds", int64(spec.MinReadySeconds))
	c.NonNegative(path, "revisionHistoryLimit", strategy.Count(spec.RevisionHistoryLimit))
	if p := spec.ProgressDeadlineSeconds; p != nil {
		c.NonNegative(path, "progressDeadlineSeconds", int64(*p))
		if *p <= spec.MinReadySeconds {
			c.Invalid(path, "progressDeadlineSeconds", *p, "must be greater than minReadySeconds")
		}
	}
	return c.List
}

func validateStrategy(c *check.Errors, s *appsv1.DeploymentStrategy, path *field.Path) {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			c.Forbidden(path, "rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			c.Required(path, "rollingUpdate", "this should be defaulted and never be nil")
			return
		}
		p := path.Child("rollingUpdate")
		unavailable, surge := amount(s.RollingUpdate.MaxUnavailable), amount(s.RollingUpdate.MaxSurge)
		c.Amount(p, "maxUnavailable", unavailable)
		c.Amount(p, "maxSurge", surge)
		if number(unavailable) == 0 && number(surge) == 0 {
			c.Invalid(p, "maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
		}
		c.AtMostAll(p, "maxUnavailable", unavailable)
	default:
		check.Among(c, path, "type", s.Type, appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType)
	}
}

func validateDeploymentUpdate(d, old *appsv1.Deployment) field.ErrorList {
	c := check.Errors{List: validateDeployment(d)}
	selectorKept(&c, d.Spec.Selector, old.Spec.Selector)
	return c.List
}

func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	var c check.Errors
	s, path := &d.Status, field.NewPath("status")
	c.NonNegative(path, "observedGeneration", s.ObservedGeneration)
	c.NonNegative(path, "replicas", int64(s.Replicas))
	c.NonNegative(path, "updatedReplicas", int64(s.UpdatedReplicas))
	c.NonNegative(path, "readyReplicas", int64(s.ReadyReplicas))
	c.NonNegative(path, "availableReplicas", int64(s.AvailableReplicas))
	c.NonNegative(path, "unavailableReplicas", int64(s.UnavailableReplicas))
	c.NonNegative(path, "terminatingReplicas", strategy.Count(s.TerminatingReplicas))
	c.NonNegative(path, "collisionCount", strategy.Count(s.CollisionCount))
	noMore(&c, path, "updatedReplicas", s.UpdatedReplicas, s.Replicas, "status.replicas")
	noMore(&c, path, "readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas")
	noMore(&c, path, "availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas")
	noMore(&c, path, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
	onlyRises(&c, path, "collisionCount", s.CollisionCount, old.Status.CollisionCount)
	return c.List
}
