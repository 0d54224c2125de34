package apiserver

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// filter says which objects of a resource a list, a watch or a view shows.
type filter struct {
	namespace string
	name      string          // from the field selector metadata.name=
	node      string          // of pods, from spec.nodeName=
	label     labels.Selector // nil: all
	field     fields.Selector // what namespace, name and node leave; nil: all
	sv        *served         // whose fields the selector names
}

// newFilter parses the selectors of a request.
func newFilter(sv *served, namespace, labelSelector, fieldSelector string) (*filter, error) {
	f, res := &filter{namespace: namespace, sv: sv}, sv.resource
	if labelSelector != "" {
		sel, err := labels.Parse(labelSelector)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if !sel.Empty() {
			f.label = sel
		}
	}
	if fieldSelector == "" {
		return f, nil
	}
	sel, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var rest []fields.Selector
	for _, r := range sel.Requirements() {
		if err := sv.checkFieldLabel(r.Field); err != nil {
			return nil, err
		}
		equals := r.Operator == "=" || r.Operator == "=="
		switch {
		case equals && r.Field == "metadata.name" && f.name == "" && r.Value != "":
			f.name = r.Value
		case equals && r.Field == "metadata.namespace" && res.namespaced && f.namespace == "" && r.Value != "":
			f.namespace = r.Value
		case equals && r.Field == "spec.nodeName" && res.isPods && f.node == "" && r.Value != "":
			f.node = r.Value
		case equals:
			rest = append(rest, fields.OneTermEqualSelector(r.Field, r.Value))
		default:
			rest = append(rest, fields.OneTermNotEqualSelector(r.Field, r.Value))
		}
	}
	if len(rest) > 0 {
		f.field = fields.AndSelectors(rest...)
	}
	return f, nil
}

func (sv *served) checkFieldLabel(label string) error {
	names := sv.kind.FieldNames
	if sv.version.SelectableFields != nil {
		names = sv.version.FieldNames
	}
	if label == "metadata.name" || label == "metadata.namespace" || slices.Contains(names, label) {
		return nil
	}
	if len(names) == 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", label))
	}
	return apierrors.NewBadRequest("field label not supported: " + label)
}

// plain tells whether namespace and name, which lie in the key, are all that
// the filter looks at.
func (f *filter) plain() bool { return f.label == nil && f.field == nil && f.node == "" }

// matchesKey looks at namespace and name only.
func (f *filter) matchesKey(namespace, name string) bool {
	return (f.namespace == "" || f.namespace == namespace) && (f.name == "" || f.name == name)
}

// matchesObject looks at all but namespace and name.
func (f *filter) matchesObject(res *resource, obj kinds.Object) bool {
	if f.node != "" && nodeOf(obj) != f.node {
		return false
	}
	if f.label != nil && !f.label.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	if f.field == nil {
		return true
	}
	set := fields.Set{}
	maps.Copy(set, f.sv.selectable(obj))
	set["metadata.name"] = obj.GetName()
	set["metadata.namespace"] = obj.GetNamespace()
	return f.field.Matches(set)
}

// selectable are the fields of an object that selectors may name.
func (sv *served) selectable(obj kinds.Object) fields.Set {
	switch {
	case sv.version.SelectableFields != nil:
		if obj, err := sv.fromHub(obj); err == nil {
			return sv.version.SelectableFields(obj)
		}
	case sv.kind.SelectableFields != nil:
		return sv.kind.SelectableFields(obj)
	}
	return nil
}

// prefix is the narrowest range of keys that holds all that matches.
func (f *filter) prefix(res *resource) string {
	if f.name != "" && (f.namespace != "" || !res.namespaced) {
		return res.key(f.namespace, f.name)
	}
	return res.kind.Prefix(f.namespace)
}

// nodeOf is the node of a pod.
func nodeOf(obj kinds.Object) string {
	if pod, ok := obj.(*corev1.Pod); ok {
		return pod.Spec.NodeName
	}
	return ""
}
