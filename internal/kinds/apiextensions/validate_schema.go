package apiextensions

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// rootFields may be set at the root of a schema whose status is a view of its
// own: its part of the schema is cut out and must hold by itself.
var rootFields = []string{"Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations"}

func validateSchema(ctx context.Context, d, was *definition, v *apiextensionsv1.CustomResourceDefinitionVersion, path *field.Path) field.ErrorList {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil
	}
	before := versionOf(was, v.Name)
	if before != nil && apiequality.Semantic.DeepEqual(before.Schema, v.Schema) && reflect.DeepEqual(before.Subresources, v.Subresources) {
		return nil // what was accepted once stays so
	}
	root := path.Child("openAPIV3Schema")
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return field.ErrorList{field.Invalid(root, "", err.Error())}
	}
	var errs field.ErrorList
	if v.Subresources != nil && v.Subresources.Status != nil {
		errs = append(errs, validateRoot(v.Schema.OpenAPIV3Schema, path)...)
	}
	if props.Nullable {
		errs = append(errs, field.Forbidden(path.Child("openAPIV3Schema.nullable"), "nullable cannot be true at the root"))
	}
	s, late := structural(ctx, &props, root, &errs)
	errs = append(errs, validateProps(&props, root, s != nil)...)
	if len(errs) == 0 {
		errs = append(errs, late...)
	}
	return errs
}

// structural reads the schema as a structural one; nil when it is none. What
// the walk over the schema says better comes back as late.
func structural(ctx context.Context, props *apiextensions.JSONSchemaProps, path *field.Path, errs *field.ErrorList) (s *schema.Structural, late field.ErrorList) {
	s, err := schema.NewStructural(props)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	if wrong := schema.ValidateStructural(path, s); len(wrong) > 0 {
		*errs = append(*errs, wrong...)
		return nil, nil
	}
	wrong, err := defaulting.ValidateDefaults(ctx, path, s, true, true)
	if err != nil {
		wrong = append(wrong, field.Invalid(path, "", err.Error()))
	}
	if len(wrong) > 0 {
		*errs = append(*errs, wrong...)
		return nil, nil
	}
	return s, nil
}

func validateRoot(props *apiextensionsv1.JSONSchemaProps, path *field.Path) field.ErrorList {
	v := reflect.ValueOf(props).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch {
		case v.Field(i).IsZero():
		case name == "Type" && props.Type != "object":
			return field.ErrorList{field.Invalid(path.Child("openAPIV3Schema.type"), props.Type, `only "object" is allowed as the type at the root of the schema if the status subresource is enabled`)}
		case !slices.Contains(rootFields, name):
			return field.ErrorList{field.Invalid(path.Child("openAPIV3Schema"), *props, fmt.Sprintf("only %v fields are allowed at the root of the schema if the status subresource is enabled", rootFields))}
		}
	}
	return nil
}

// versionOf finds a version of a definition; nil when there is none.
func versionOf(d *definition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	if d == nil {
		return nil
	}
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Name == name {
			return &d.Spec.Versions[i]
		}
	}
	return nil
}

func validateSelectable(v *apiextensionsv1.CustomResourceDefinitionVersion, was *definition, path *field.Path) (errs field.ErrorList) {
	if len(v.SelectableFields) == 0 || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil
	}
	at := path.Child("selectableFields")
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil // said of the schema
	}
	s, err := schema.NewStructural(&props)
	if err != nil {
		return field.ErrorList{field.Invalid(path.Child("schema.openAPIV3Schema"), "", err.Error())}
	}
	seen := map[string]bool{}
	for i, f := range v.SelectableFields {
		p := at.Index(i).Child("jsonPath")
		if f.JSONPath == "" {
			errs = append(errs, field.Required(p, ""))
			continue
		}
		to, found, err := cel.ValidFieldPath(f.JSONPath, s, cel.WithFieldPathAllowArrayNotation(false))
		if err != nil {
			errs = append(errs, field.Invalid(p, f.JSONPath, fmt.Sprintf("is an invalid path: %v", err)))
			continue
		}
		if to.Root().String() == "metadata" {
			errs = append(errs, field.Invalid(p, f.JSONPath, "must not point to fields in metadata"))
		}
		if found == nil || found.Type != "string" && found.Type != "boolean" && found.Type != "integer" {
			errs = append(errs, field.Invalid(p, f.JSONPath, "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		}
		if seen[to.String()] {
			errs = append(errs, field.Duplicate(p, f.JSONPath))
		}
		seen[to.String()] = true
	}
	before := versionOf(was, v.Name)
	if len(seen) > maxFields && (before == nil || !reflect.DeepEqual(before.SelectableFields, v.SelectableFields)) {
		errs = append(errs, field.TooMany(at, len(seen), maxFields))
	}
	return errs
}
