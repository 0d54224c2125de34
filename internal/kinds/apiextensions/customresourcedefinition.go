package apiextensions

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

type (
	definition = apiextensionsv1.CustomResourceDefinition
	list       = apiextensionsv1.CustomResourceDefinitionList
)

func customResourceDefinition() *kinds.Kind {
	split := strategy.Counted[definition]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "customresourcedefinitions"},
		Kind:     "CustomResourceDefinition", Singular: "customresourcedefinition",
		ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"},
		StoragePrefix: "/registry/apiextensions.k8s.io/customresourcedefinitions/",
		Versions:      []kinds.Version{strategy.Version[definition, list](v1, setDefaults)},
		PrepareCreate: func(ctx context.Context, obj kinds.Object) {
			split.PrepareCreate(ctx, obj)
			noteStored(obj.(*definition))
		},
		PrepareUpdate: func(ctx context.Context, obj, old kinds.Object) {
			split.PrepareUpdate(ctx, obj, old)
			noteStored(obj.(*definition))
		},
		PrepareDelete:  strategy.PrepareCreate(markForCleanup),
		Validate:       validate,
		ValidateUpdate: validateUpdate,
		Columns:        []kinds.Column{strategy.Name(), strategy.CreatedAt()},
		Subresources: map[string]*kinds.Subresource{
			"status": {Verbs: []string{"get", "patch", "update"}, PrepareUpdate: split.PrepareStatus, ValidateUpdate: validateStatus},
		},
	}
}

func setDefaults(d *definition) {
	spec := &d.Spec
	if spec.Names.Singular == "" {
		spec.Names.Singular = strings.ToLower(spec.Names.Kind)
	}
	if spec.Names.ListKind == "" && spec.Names.Kind != "" {
		spec.Names.ListKind = spec.Names.Kind + "List"
	}
	if spec.Conversion == nil {
		spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	}
	if w := spec.Conversion.Webhook; w != nil && w.ClientConfig != nil && w.ClientConfig.Service != nil && w.ClientConfig.Service.Port == nil {
		port := int32(443)
		w.ClientConfig.Service.Port = &port
	}
	noteFirst(d)
}

// noteFirst says of a definition that never said what is stored that its
// storage version is.
func noteFirst(d *definition) {
	if len(d.Status.StoredVersions) == 0 {
		noteStored(d)
	}
}

// noteStored adds the storage version to those in which objects may lie in the
// store.
func noteStored(d *definition) {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			if !slices.Contains(d.Status.StoredVersions, v.Name) {
				d.Status.StoredVersions = append(slices.Clone(d.Status.StoredVersions), v.Name)
			}
			return
		}
	}
}

// markForCleanup makes a definition wait, on its first deletion, until its
// objects have gone.
func markForCleanup(d *definition) {
	if !slices.Contains(d.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		d.Finalizers = append(d.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	apihelpers.SetCRDCondition(d, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionPending",
		Message:            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
		LastTransitionTime: metav1.Now(),
	})
}
