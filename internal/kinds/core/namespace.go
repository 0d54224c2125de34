package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func namespace() *kinds.Kind {
	split := strategy.Of[corev1.Namespace]()
	status := split.Status()
	status.ValidateUpdate = strategy.ValidateUpdate(validateNamespaceStatus)
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "namespaces"}, Kind: "Namespace", Singular: "namespace",
		ShortNames:               []string{"ns"},
		StoragePrefix:            "/registry/namespaces/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Namespace, corev1.NamespaceList](v1, defaultNamespace)},
		NoVerbs:                  []string{"deletecollection"},
		AllowUnconditionalUpdate: true,
		ValidateName:             validation.NameIsDNSLabel,
		PrepareCreate: strategy.PrepareCreate(func(ns *corev1.Namespace) {
			ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
			if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
				ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
			}
		}),
		PrepareUpdate: strategy.PrepareUpdate(func(ns, old *corev1.Namespace) {
			ns.Spec, ns.Status = old.Spec, old.Status // finalizers change in their own view
		}),
		Validate: strategy.Validate(validateNamespace),
		Subresources: map[string]*kinds.Subresource{
			// What else the view keeps is the API server's, which ends namespaces.
			"finalize": {Verbs: []string{"update"}, ValidateUpdate: strategy.ValidateUpdate(validateFinalize)},
			"status":   status,
		},
		SelectableFields: strategy.Fields(func(ns *corev1.Namespace) fields.Set {
			return fields.Set{"status.phase": string(ns.Status.Phase), "name": ns.Name}
		}),
		FieldNames: []string{"status.phase", "name"},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Status", "string", "The status of the namespace", func(ns *corev1.Namespace) any { return string(ns.Status.Phase) }),
			strategy.Age(),
		},
	}
}

// defaultNamespace adds the label by which selectors find a namespace.
func defaultNamespace(ns *corev1.Namespace) {
	if ns.Name != "" && ns.Labels[corev1.LabelMetadataName] != ns.Name {
		metav1.SetMetaDataLabel(&ns.ObjectMeta, corev1.LabelMetadataName, ns.Name)
	}
	if ns.Status.Phase == "" {
		ns.Status.Phase = corev1.NamespaceActive
	}
}

func validateNamespace(ns *corev1.Namespace) field.ErrorList {
	var c check.Errors
	for _, f := range ns.Spec.Finalizers {
		validateFinalizer(&c, string(f), field.NewPath("spec", "finalizers"))
	}
	return c.List
}

// validateFinalizer wants one of the old names or one with a domain.
func validateFinalizer(c *check.Errors, name string, path *field.Path) {
	c.Add(validation.ValidateFinalizerName(name, path))
	standard := name == string(corev1.FinalizerKubernetes) || name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents
	if !strings.Contains(name, "/") && !standard {
		c.Invalid(path, "", name, "name is neither a standard finalizer name nor is it fully qualified")
	}
}

func validateNamespaceStatus(ns, _ *corev1.Namespace) field.ErrorList {
	var c check.Errors
	path := field.NewPath("status")
	switch ending := ns.DeletionTimestamp != nil; {
	case !ending && ns.Status.Phase != corev1.NamespaceActive:
		c.Invalid(path, "Phase", ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")
	case ending && ns.Status.Phase != corev1.NamespaceTerminating:
		c.Invalid(path, "Phase", ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
	}
	return c.List
}

func validateFinalize(ns, _ *corev1.Namespace) field.ErrorList {
	var c check.Errors
	for i, f := range ns.Spec.Finalizers {
		validateFinalizer(&c, string(f), field.NewPath("spec", "finalizers").Index(i))
	}
	return c.List
}
