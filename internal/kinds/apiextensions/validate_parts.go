package apiextensions

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// simplePath checks a JSON path of names and dots.
func simplePath(path *field.Path, value string) field.ErrorList {
	if value == "" || value[0] != '.' {
		return field.ErrorList{field.Invalid(path, value, "must be a simple json path starting with .")}
	}
	return nil
}

func validateScale(s *apiextensionsv1.CustomResourceSubresourceScale, path *field.Path) (errs field.ErrorList) {
	below := func(name, value, root string) {
		at := path.Child(name)
		switch wrong := simplePath(at, value); {
		case value == "":
			errs = append(errs, field.Required(at, ""))
		case len(wrong) > 0:
			errs = append(errs, wrong...)
		case !strings.HasPrefix(value, root+"."):
			errs = append(errs, field.Invalid(at, value, "should be a json path under "+root))
		}
	}
	below("specReplicasPath", s.SpecReplicasPath, ".spec")
	below("statusReplicasPath", s.StatusReplicasPath, ".status")
	if sel := s.LabelSelectorPath; sel != nil && *sel != "" {
		at := path.Child("labelSelectorPath")
		if wrong := simplePath(at, *sel); len(wrong) > 0 {
			errs = append(errs, wrong...)
		} else if !strings.HasPrefix(*sel, ".spec.") && !strings.HasPrefix(*sel, ".status.") {
			errs = append(errs, field.Invalid(at, *sel, "should be a json path under either .spec or .status"))
		}
	}
	return errs
}

var (
	columnTypes   = []string{"boolean", "date", "integer", "number", "string"}
	columnFormats = []string{"binary", "byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
)

func validateColumn(c *apiextensionsv1.CustomResourceColumnDefinition, path *field.Path) (errs field.ErrorList) {
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	among := "must be one of " + strings.Join(columnTypes, ",")
	switch {
	case c.Type == "":
		errs = append(errs, field.Required(path.Child("type"), among))
	case !slices.Contains(columnTypes, c.Type):
		errs = append(errs, field.Invalid(path.Child("type"), c.Type, among))
	}
	if c.Format != "" && !slices.Contains(columnFormats, c.Format) {
		errs = append(errs, field.Invalid(path.Child("format"), c.Format, "must be one of "+strings.Join(columnFormats, ",")))
	}
	if at := path.Child("JSONPath"); c.JSONPath == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, simplePath(at, c.JSONPath)...)
	}
	return errs
}

// reviewVersions are the versions of ConversionReview that the server speaks;
// one of them has to be among those that a webhook takes.
var reviewVersions = []string{"v1", "v1beta1"}

// maxFields is how many selectable fields a version may have.
const maxFields = 8
