package crd

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// selectable are the fields that field selectors may name, besides those in the
// metadata.
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#crd-selectable-fields
func selectable(in []apiextensionsv1.SelectableField) (names []string, values func(kinds.Object) fields.Set) {
	if len(in) == 0 {
		return nil, nil
	}
	find := make([]finder, len(in))
	for i, f := range in {
		names = append(names, strings.TrimPrefix(f.JSONPath, "."))
		find[i] = newFinder(f.JSONPath)
	}
	return names, func(obj kinds.Object) fields.Set {
		set := fields.Set{}
		for i, name := range names {
			set[name] = ""
			if v, ok := find[i](obj.(*Object)); ok && v != nil {
				set[name] = fmt.Sprint(v)
			}
		}
		return set
	}
}
