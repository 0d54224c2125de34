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
}

// nameRule is how the kind's names are checked.
func (res *resource) nameRule() validation.ValidateNameFunc {
	if res.kind.ValidateName != nil {
		return res.kind.ValidateName
	}
	return validation.NameIsDNSSubdomain
}

func (sv *served) validateNew(ctx context.Context, obj kinds.Object) field.ErrorList {
	res := sv.resource
	errs := validation.ValidateObjectMetaAccessor(obj, res.namespaced, res.nameRule(), metadataPath)
	if res.kind.Validate != nil {
		errs = append(errs, res.kind.Validate(ctx, obj)...)
	}
	return append(errs, sv.validateVersion(ctx, obj, nil, "")...)
}

// validateVersion applies the rules of the version that is written, where it
// has its own. old is nil for a new object.
func (sv *served) validateVersion(ctx context.Context, obj, old kinds.Object, sub string) field.ErrorList {
	if sv.version.Validate == nil {
		return nil
	}
	obj, err := sv.fromHub(obj)
	if err == nil && old != nil {
		old, err = sv.fromHub(old)
	}
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return sv.version.Validate(ctx, obj, old, sub)
}

func (sv *served) validateChanged(ctx context.Context, sub string, obj, old kinds.Object, rules func(context.Context, kinds.Object, kinds.Object) field.ErrorList) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessorUpdate(obj, old, metadataPath)
	if rules != nil {
		errs = append(errs, rules(ctx, obj, old)...)
	}
	return append(errs, sv.validateVersion(ctx, obj, old, sub)...)
}
