package apiserver

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

var metadataPath = field.NewPath("metadata")

// Names made from a generateName: its first 58 characters and 5 random ones,
// so that the whole is a valid label.
const (
	maxGeneratedName = 63
	randomSuffix     = 5
)

func generateName(base string) string {
	if len(base) > maxGeneratedName-randomSuffix {
		base = base[:maxGeneratedName-randomSuffix]
	}
	return base + rand.String(randomSuffix)
}

// now is the time as metadata holds it: in seconds.
func now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

// fillNew sets what only the server sets in a new object.
func fillNew(obj kinds.Object) {
	obj.SetUID(types.UID(uuid.NewUUID()))
	obj.SetCreationTimestamp(now())
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
}

// keepOld carries over from old what an update may not change in metadata.
func keepOld(obj, old kinds.Object) {
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	if obj.GetGenerateName() == "" {
		obj.SetGenerateName(old.GetGenerateName())
	}
	obj.SetGeneration(old.GetGeneration())
	obj.SetSelfLink("")
	obj.SetManagedFields(old.GetManagedFields())
}

// nameRule is how the kind's names are checked.
func (res *resource) nameRule() validation.ValidateNameFunc {
	if res.kind.ValidateName != nil {
		return res.kind.ValidateName
	}
	return validation.NameIsDNSSubdomain
}

func (res *resource) validateNew(ctx context.Context, obj kinds.Object) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessor(obj, res.namespaced, res.nameRule(), metadataPath)
	if res.kind.Validate != nil {
		errs = append(errs, res.kind.Validate(ctx, obj)...)
	}
	return errs
}

func (res *resource) validateChanged(ctx context.Context, obj, old kinds.Object, rules func(context.Context, kinds.Object, kinds.Object) field.ErrorList) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessorUpdate(obj, old, metadataPath)
	if rules != nil {
		errs = append(errs, rules(ctx, obj, old)...)
	}
	return errs
}
