package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func statefulSet() *kinds.Kind {
	split := strategy.Counted[appsv1.StatefulSet]()
	columns := []kinds.Column{
		strategy.Name(),
		strategy.Column("Ready", "string", "Number of the pod with ready state", func(s *appsv1.StatefulSet) any {
			return fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, strategy.Count(s.Spec.Replicas))
		}),
		strategy.Age(),
	}
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "statefulsets"}, Kind: "StatefulSet", Singular: "statefulset",
		ShortNames: []string{"sts"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/statefulsets/",
		Versions:                 []kinds.Version{strategy.Version[appsv1.StatefulSet, appsv1.StatefulSetList](v1, defaultStatefulSet)},
		AllowUnconditionalUpdate: true,
		ValidateName:             validation.NameIsDNSLabel,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate: strategy.Validate(func(s *appsv1.StatefulSet) field.ErrorList {
			c := check.Errors{List: validateStatefulSet(s)}
			if name := s.Spec.ServiceName; name != "" {
				c.Label(field.NewPath("spec"), "serviceName", name)
			}
			return c.List
		}),
		ValidateUpdate: strategy.ValidateUpdate(validateStatefulSetUpdate),
		Warnings:       strategy.Warnings(statefulSetWarnings),
		Subresources: map[string]*kinds.Subresource{
			"scale": strategy.Scale(func(s *appsv1.StatefulSet) strategy.Replicas {
				return strategy.Replicas{Want: &s.Spec.Replicas, Have: s.Status.Replicas, Selector: strategy.Selector(s.Spec.Selector)}
			}),
			"status": {Verbs: strategy.View(), PrepareUpdate: split.PrepareStatus, ValidateUpdate: strategy.ValidateUpdate(validateStatefulSetStatus)},
		},
		Columns: append(columns, strategy.TemplateColumns(func(s *appsv1.StatefulSet) *corev1.PodSpec { return &s.Spec.Template.Spec })...),
	}
}

func defaultStatefulSet(s *appsv1.StatefulSet) {
	spec := &s.Spec
	if spec.PodManagementPolicy == "" {
		spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if spec.UpdateStrategy.RollingUpdate == nil {
			spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && r.Partition == nil {
		r.Partition = new(int32(0))
	}
	if spec.PersistentVolumeClaimRetentionPolicy == nil {
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	if p := spec.PersistentVolumeClaimRetentionPolicy; p.WhenDeleted == "" {
		p.WhenDeleted = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if p := spec.PersistentVolumeClaimRetentionPolicy; p.WhenScaled == "" {
		p.WhenScaled = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if spec.Replicas == nil {
		spec.Replicas = new(int32(1))
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(10))
	}
	core.DefaultPodTemplateSpec(&spec.Template)
	for i := range spec.VolumeClaimTemplates {
		t := &spec.VolumeClaimTemplates[i]
		// Protobuf does not carry a type inside of an object; no more do we in
		// JSON, so that both read the same.
		t.TypeMeta = metav1.TypeMeta{}
		core.DefaultPersistentVolumeClaim(t)
	}
}

func validateStatefulSet(s *appsv1.StatefulSet) field.ErrorList {
	var c check.Errors
	spec, path := &s.Spec, field.NewPath("spec")
	check.OneOf(&c, path, "podManagementPolicy", spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)
	validateStatefulUpdates(&c, &spec.UpdateStrategy, path.Child("updateStrategy"))
	if r := spec.PersistentVolumeClaimRetentionPolicy; r != nil {
		p := path.Child("persistentVolumeClaimRetentionPolicy")
		retain, remove := appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		check.Among(&c, p, "whenDeleted", r.WhenDeleted, retain, remove)
		check.Among(&c, p, "whenScaled", r.WhenScaled, retain, remove)
	}
	c.NonNegative(path, "replicas", strategy.Count(spec.Replicas))
	c.NonNegative(path, "minReadySeconds", int64(spec.MinReadySeconds))
	if spec.Ordinals != nil {
		c.NonNegative(path.Child("ordinals"), "start", int64(spec.Ordinals.Start))
	}
	validateSelectorAndTemplate(&c, spec.Selector, podOf(spec), path, "statefulset", "StatefulSet")
	return c.List
}

// podOf is the template as the loop completes it before it makes a pod: with a
// volume for each claim, in place of one of the same name, and a host name.
func podOf(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	t := spec.Template
	t.Spec.Hostname, t.Spec.Subdomain = "", ""
	claimed := map[string]bool{}
	var volumes []corev1.Volume
	for i := range spec.VolumeClaimTemplates {
		name := spec.VolumeClaimTemplates[i].Name
		if claimed[name] {
			continue
		}
		claimed[name] = true
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	for _, v := range t.Spec.Volumes {
		if !claimed[v.Name] {
			volumes = append(volumes, v)
		}
	}
	t.Spec.Volumes = volumes
	return &t
}

func validateStatefulUpdates(c *check.Errors, s *appsv1.StatefulSetUpdateStrategy, path *field.Path) {
	switch s.Type {
	case "":
		c.Required(path, "", "")
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			c.Invalid(path, "rollingUpdate", s.RollingUpdate, "only allowed for updateStrategy 'RollingUpdate'")
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			c.NonNegative(path.Child("rollingUpdate"), "partition", strategy.Count(s.RollingUpdate.Partition))
		}
	default:
		c.Invalid(path, "", s, "must be 'RollingUpdate' or 'OnDelete'")
	}
}

// validateStatefulSetUpdate: what pods are called and what they store must
// stay, or nobody would find it again.
func validateStatefulSetUpdate(s, old *appsv1.StatefulSet) field.ErrorList {
	c := check.Errors{List: validateStatefulSet(s)}
	spec := s.Spec
	spec.Replicas = old.Spec.Replicas
	spec.Template = old.Spec.Template
	spec.UpdateStrategy = old.Spec.UpdateStrategy
	spec.MinReadySeconds = old.Spec.MinReadySeconds
	spec.Ordinals = old.Spec.Ordinals
	spec.RevisionHistoryLimit = old.Spec.RevisionHistoryLimit
	spec.PersistentVolumeClaimRetentionPolicy = old.Spec.PersistentVolumeClaimRetentionPolicy
	if !apiequality.Semantic.DeepEqual(&spec, &old.Spec) {
		c.Forbidden(field.NewPath("spec"), "", "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")
	}
	return c.List
}

func validateStatefulSetStatus(s, old *appsv1.StatefulSet) field.ErrorList {
	var c check.Errors
	status, path := &s.Status, field.NewPath("status")
	c.NonNegative(path, "replicas", int64(status.Replicas))
	c.NonNegative(path, "readyReplicas", int64(status.ReadyReplicas))
	c.NonNegative(path, "currentReplicas", int64(status.CurrentReplicas))
	c.NonNegative(path, "updatedReplicas", int64(status.UpdatedReplicas))
	c.NonNegative(path, "availableReplicas", int64(status.AvailableReplicas))
	c.NonNegative(path, "observedGeneration", status.ObservedGeneration)
	c.NonNegative(path, "collisionCount", strategy.Count(status.CollisionCount))
	noMore(&c, path, "readyReplicas", status.ReadyReplicas, status.Replicas, "status.replicas")
	noMore(&c, path, "currentReplicas", status.CurrentReplicas, status.Replicas, "status.replicas")
	noMore(&c, path, "updatedReplicas", status.UpdatedReplicas, status.Replicas, "status.replicas")
	noMore(&c, path, "availableReplicas", status.AvailableReplicas, status.Replicas, "status.replicas")
	noMore(&c, path, "availableReplicas", status.AvailableReplicas, status.ReadyReplicas, "status.readyReplicas")
	onlyRises(&c, path, "collisionCount", status.CollisionCount, old.Status.CollisionCount)
	return c.List
}

func statefulSetWarnings(s, old *appsv1.StatefulSet) []string {
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = &old.Spec.Template
	}
	out := core.PodTemplateWarnings(&s.Spec.Template, before, field.NewPath("spec", "template"))
	if n := s.Spec.RevisionHistoryLimit; n != nil && *n < 0 {
		out = append(out, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return out
}
