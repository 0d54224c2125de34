package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

func validateClaim(claim *corev1.PersistentVolumeClaim) field.ErrorList {
	var c check.Errors
	validateClaimSpec(&c, &claim.Spec, field.NewPath("spec"))
	return c.List
}

// validateClaimUpdate: a claim takes one volume, once. A bound one may ask for
// more room or another class of attributes.
func validateClaimUpdate(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	c := check.Errors{List: validateClaim(claim)}
	path := field.NewPath("spec")
	now, was := claim.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName
	}
	before, annotated := old.Annotations[betaStorageClass]
	if annotated && was.StorageClassName == nil && now.StorageClassName != nil && *now.StorageClassName == before {
		now.StorageClassName = nil // the class moved from the annotation
	} else {
		if after := claim.Annotations[betaStorageClass]; after != before {
			c.Immutable(field.NewPath("metadata", "annotations", betaStorageClass), "", after)
		}
		if !annotated && was.StorageClassName == nil && now.StorageClassName != nil {
			now.StorageClassName = nil // the default class came later than the claim
		}
	}
	const storage = corev1.ResourceStorage
	if claim.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[storage] = was.Resources.Requests[storage]
		}
		now.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if !apiequality.Semantic.DeepEqual(now, was) {
		c.Forbidden(path, "", fmt.Sprintf("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v", diff.Diff(*was, *now)))
	}
	size, oldSize, have := claim.Spec.Resources.Requests[storage], old.Spec.Resources.Requests[storage], old.Status.Capacity[storage]
	if size.Cmp(oldSize) < 0 && size.Cmp(have) <= 0 {
		c.Forbidden(path.Child("resources", "requests", "storage"), "", "field can not be less than status.capacity")
	}
	if !apiequality.Semantic.DeepEqual(claim.Spec.VolumeMode, old.Spec.VolumeMode) {
		c.Immutable(path, "volumeMode", claim.Spec.VolumeMode)
	}
	if class := old.Spec.VolumeAttributesClassName; class != nil && *class != "" {
		switch to := claim.Spec.VolumeAttributesClassName; {
		case to == nil:
			c.Forbidden(path, "volumeAttributesClassName", "update from non-nil value to nil is forbidden")
		case *to == "":
			c.Forbidden(path, "volumeAttributesClassName", "update from non-nil value to an empty string is forbidden")
		}
	}
	return c.List
}

// claimResizing are the words that tell where the growth of a volume stands.
var claimResizing = []corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimControllerResizeInProgress,
	corev1.PersistentVolumeClaimNodeResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizePending,
}

func validateClaimStatus(claim, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var c check.Errors
	path := field.NewPath("status")
	if len(claim.Spec.AccessModes) == 0 {
		c.Required(field.NewPath("Spec", "accessModes"), "", "") // upstream's path
	}
	for _, name := range sorted(claim.Status.Capacity) {
		if q := claim.Status.Capacity[name]; q.Sign() < 0 {
			c.Invalid(path.Child("capacity").Key(string(name)), "", q.Value(), "must be a valid resource quantity")
		}
	}
	for _, name := range sorted(claim.Status.AllocatedResourceStatuses) {
		p := path.Child("allocatedResourceStatus").Key(string(name))
		if claimResource(&c, name, p) {
			check.Among(&c, p, "", claim.Status.AllocatedResourceStatuses[name], claimResizing...)
		}
	}
	for _, name := range sorted(claim.Status.AllocatedResources) {
		p := path.Child("allocatedResources").Key(string(name))
		if claimResource(&c, name, p) {
			validateQuantity(&c, name, claim.Status.AllocatedResources[name], p)
		}
	}
	return c.List
}

// claimResource: a claim is for storage; what others add bears their name.
func claimResource(c *check.Errors, name corev1.ResourceName, path *field.Path) bool {
	n := len(c.List)
	c.Qualified(path, "", string(name))
	if len(c.List) == n && native(name) && name != corev1.ResourceStorage {
		check.Among(c, path, "", name, corev1.ResourceStorage)
	}
	return len(c.List) == n
}

// normalizeSources makes the older field for the source of a claim's data and
// the newer say the same. The older knows claims and snapshots only, and
// upstream forgets what else stands there, unless it stood there before.
func normalizeSources(spec, old *corev1.PersistentVolumeClaimSpec) {
	if ref := spec.DataSourceRef; ref != nil && ref.Namespace != nil {
		spec.DataSourceRef = nil // sources of other namespaces are alpha
	}
	source, ref := spec.DataSource, spec.DataSourceRef
	switch {
	case source != nil && ref == nil:
		if (old == nil || old.DataSource == nil) && !(group(source.APIGroup) == "" && source.Kind == "PersistentVolumeClaim" || group(source.APIGroup) == "snapshot.storage.k8s.io" && source.Kind == "VolumeSnapshot") {
			spec.DataSource = nil
			return
		}
		spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: source.APIGroup, Kind: source.Kind, Name: source.Name}
	case ref != nil && source == nil:
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}

func claimWarnings(claim, _ *corev1.PersistentVolumeClaim) []string {
	out := storageAnnotationWarnings(claim.Annotations)
	if q, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]; ok && q.MilliValue()%1000 != 0 {
		out = append(out, fmt.Sprintf("spec.resources.requests[storage]: fractional byte value %q is invalid, must be an integer", q.String()))
	}
	return out
}
