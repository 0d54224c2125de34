package apiextensions

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateVersions(ctx context.Context, d, was *definition) (errs field.ErrorList) {
	path := specPath.Child("versions")
	stored, names, twice := 0, map[string]bool{}, false
	for i := range d.Spec.Versions {
		v, at := &d.Spec.Versions[i], path.Index(i)
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			errs = append(errs, field.Required(at.Child("schema", "openAPIV3Schema"), ""))
		}
		if v.Storage {
			stored++
		}
		twice = twice || names[v.Name]
		names[v.Name] = true
		if wrong := utilvalidation.IsDNS1035Label(v.Name); len(wrong) > 0 {
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, strings.Join(wrong, ",")))
		}
		errs = append(errs, validateVersion(ctx, d, was, v, at)...)
	}
	if twice {
		errs = append(errs, field.Invalid(path, d.Spec.Versions, "must contain unique version names"))
	}
	if stored != 1 {
		errs = append(errs, field.Invalid(path, d.Spec.Versions, "must have exactly one version marked as storage version"))
	}
	return errs
}

func validateVersion(ctx context.Context, d, was *definition, v *apiextensionsv1.CustomResourceDefinitionVersion, path *field.Path) (errs field.ErrorList) {
	for _, wrong := range deprecation(v.Deprecated, v.DeprecationWarning) {
		errs = append(errs, field.Invalid(path.Child("deprecationWarning"), v.DeprecationWarning, wrong))
	}
	errs = append(errs, validateSchema(ctx, d, was, v, path.Child("schema"))...)
	if v.Subresources != nil && v.Subresources.Scale != nil {
		errs = append(errs, validateScale(v.Subresources.Scale, path.Child("subresources", "scale"))...)
	}
	for i := range v.AdditionalPrinterColumns {
		errs = append(errs, validateColumn(&v.AdditionalPrinterColumns[i], path.Child("additionalPrinterColumns").Index(i))...)
	}
	return append(errs, validateSelectable(v, was, path)...)
}

// deprecation says what is wrong with a version's warning.
func deprecation(deprecated bool, warning *string) (wrong []string) {
	switch {
	case !deprecated && warning != nil:
		return []string{"can only be set for deprecated versions"}
	case warning == nil:
		return nil
	}
	if len(*warning) > 256 {
		wrong = append(wrong, "must be <= 256 characters long")
	}
	if *warning == "" {
		wrong = append(wrong, "must not be an empty string")
	}
	for i, r := range *warning {
		if !unicode.IsPrint(r) {
			return append(wrong, fmt.Sprintf("must only contain printable UTF-8 characters; non-printable character found at index %d", i))
		}
	}
	return wrong
}
