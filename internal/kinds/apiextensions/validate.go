package apiextensions

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

var specPath, statusPath = field.NewPath("spec"), field.NewPath("status")

func validate(ctx context.Context, obj kinds.Object) field.ErrorList {
	return validateWhole(ctx, obj.(*definition), nil)
}

func validateUpdate(ctx context.Context, obj, old kinds.Object) field.ErrorList {
	d, was := obj.(*definition), old.(*definition)
	errs := validateWhole(ctx, d, was)
	if apihelpers.IsCRDConditionTrue(was, apiextensionsv1.Established) {
		errs = append(errs, validation.ValidateImmutableField(d.Spec.Scope, was.Spec.Scope, specPath.Child("scope"))...)
		errs = append(errs, validation.ValidateImmutableField(d.Spec.Names.Kind, was.Spec.Names.Kind, specPath.Child("names", "kind"))...)
	}
	errs = append(errs, validation.ValidateImmutableField(d.Spec.Group, was.Spec.Group, specPath.Child("group"))...)
	return append(errs, validation.ValidateImmutableField(d.Spec.Names.Plural, was.Spec.Names.Plural, specPath.Child("names", "plural"))...)
}

func validateStatus(_ context.Context, obj, _ kinds.Object) field.ErrorList {
	return validateNames(&obj.(*definition).Status.AcceptedNames, statusPath.Child("acceptedNames"))
}

// validateWhole checks a definition. was is nil for a new one: what a
// definition had before may stay in some places.
func validateWhole(ctx context.Context, d, was *definition) (errs field.ErrorList) {
	if want := d.Spec.Names.Plural + "." + d.Spec.Group; was == nil && d.Name != want {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), d.Name, `must be spec.names.plural+"."+spec.group`))
	}
	errs = append(errs, validateSpec(ctx, d, was)...)
	errs = append(errs, validateNames(&d.Status.AcceptedNames, statusPath.Child("acceptedNames"))...)
	errs = append(errs, validateStored(d)...)
	errs = append(errs, validateApproval(d, was)...)
	if d.Spec.PreserveUnknownFields && (was == nil || !was.Spec.PreserveUnknownFields) {
		errs = append(errs, field.Invalid(specPath.Child("preserveUnknownFields"), true, "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
	return errs
}

func validateSpec(ctx context.Context, d, was *definition) (errs field.ErrorList) {
	spec := &d.Spec
	switch group := specPath.Child("group"); {
	case spec.Group == "":
		errs = append(errs, field.Required(group, ""))
	default:
		if wrong := utilvalidation.IsDNS1123Subdomain(spec.Group); len(wrong) > 0 {
			errs = append(errs, field.Invalid(group, spec.Group, strings.Join(wrong, ",")))
		} else if !strings.Contains(spec.Group, ".") {
			errs = append(errs, field.Invalid(group, spec.Group, "should be a domain with at least one dot"))
		}
	}
	errs = append(errs, oneOf(specPath.Child("scope"), string(spec.Scope), string(apiextensionsv1.ClusterScoped), string(apiextensionsv1.NamespaceScoped))...)
	errs = append(errs, validateVersions(ctx, d, was)...)
	names := specPath.Child("names")
	for _, n := range []struct{ field, value string }{
		{"plural", spec.Names.Plural}, {"singular", spec.Names.Singular}, {"kind", spec.Names.Kind}, {"listKind", spec.Names.ListKind},
	} {
		if n.value == "" {
			errs = append(errs, field.Required(names.Child(n.field), ""))
		}
	}
	errs = append(errs, validateNames(&spec.Names, names)...)
	return append(errs, validateConversion(d, was)...)
}

// oneOf checks a value that has to be one of a few.
func oneOf(path *field.Path, value string, accepted ...string) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(accepted, value):
		return field.ErrorList{field.NotSupported(path, value, accepted)}
	}
	return nil
}

func validateNames(n *apiextensionsv1.CustomResourceDefinitionNames, path *field.Path) (errs field.ErrorList) {
	label := func(p *field.Path, value, shown, prefix string) {
		if wrong := utilvalidation.IsDNS1035Label(value); value != "" && len(wrong) > 0 {
			errs = append(errs, field.Invalid(p, shown, prefix+strings.Join(wrong, ",")))
		}
	}
	const mixed = "may have mixed case, but should otherwise match: "
	label(path.Child("plural"), n.Plural, n.Plural, "")
	label(path.Child("singular"), n.Singular, n.Singular, "")
	label(path.Child("kind"), strings.ToLower(n.Kind), n.Kind, mixed)
	label(path.Child("listKind"), strings.ToLower(n.ListKind), n.ListKind, mixed)
	each := func(name string, values []string) {
		for i, v := range values {
			if wrong := utilvalidation.IsDNS1035Label(v); len(wrong) > 0 {
				errs = append(errs, field.Invalid(path.Child(name).Index(i), v, strings.Join(wrong, ",")))
			}
		}
	}
	each("shortNames", n.ShortNames)
	if n.Kind != "" && n.Kind == n.ListKind {
		errs = append(errs, field.Invalid(path.Child("listKind"), n.ListKind, "kind and listKind may not be the same"))
	}
	each("categories", n.Categories)
	return errs
}

// validateStored sees that no version is dropped in which objects may still
// lie in the store.
func validateStored(d *definition) (errs field.ErrorList) {
	path, stored := statusPath.Child("storedVersions"), d.Status.StoredVersions
	if len(stored) == 0 {
		return field.ErrorList{field.Invalid(path, stored, "must have at least one stored version")}
	}
	names := map[string]bool{}
	for _, v := range d.Spec.Versions {
		names[v.Name] = true
		if v.Storage && !slices.Contains(stored, v.Name) {
			errs = append(errs, field.Invalid(path, stored, "must have the storage version "+v.Name))
		}
	}
	for i, v := range stored {
		if !names[v] {
			errs = append(errs, field.Invalid(path.Index(i), v, "missing from spec.versions; "+v+" was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in "+v+" and removes "+v+" from status.storedVersions"))
		}
	}
	return errs
}

// validateApproval keeps Kubernetes' own groups to approved kinds.
func validateApproval(d, was *definition) field.ErrorList {
	if !apihelpers.IsProtectedCommunityGroup(d.Spec.Group) {
		return nil
	}
	state, reason := apihelpers.GetAPIApprovalState(d.Annotations)
	if was != nil && state != apihelpers.APIApproved {
		if had, _ := apihelpers.GetAPIApprovalState(was.Annotations); had == state {
			return nil // as it was
		}
	}
	path := field.NewPath("metadata", "annotations").Key(apiextensionsv1.KubeAPIApprovedAnnotation)
	switch state {
	case apihelpers.APIApprovalInvalid:
		return field.ErrorList{field.Invalid(path, d.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation], reason)}
	case apihelpers.APIApprovalMissing:
		return field.ErrorList{field.Required(path, reason)}
	}
	return nil
}
