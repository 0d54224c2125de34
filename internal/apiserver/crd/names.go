package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Names are given to whoever asks first: within a group, no two definitions
// have the same resource names or kinds.

// taken tells which names other definitions of a group hold.
type taken interface {
	resource(name string) bool
	kind(name string) bool
}

// namesOf are the names that a definition holds, as an index of definitions
// has them: group and name apart by a slash, kinds with their case, which
// resources do not have.
func namesOf(crd *apiextensionsv1.CustomResourceDefinition) (out []string) {
	n := &crd.Status.AcceptedNames
	for _, name := range append([]string{n.Plural, n.Singular}, n.ShortNames...) {
		if name != "" {
			out = append(out, resourceKey(crd.Spec.Group, name))
		}
	}
	for _, kind := range []string{n.Kind, n.ListKind} {
		if kind != "" {
			out = append(out, kindKey(crd.Spec.Group, kind))
		}
	}
	return out
}

func resourceKey(group, name string) string { return "r/" + group + "/" + name }
func kindKey(group, name string) string     { return "k/" + group + "/" + name }

// accept gives a definition the names that it asks for and may have; it keeps
// those that it has where it may not. The condition says how that went.
func accept(crd *apiextensionsv1.CustomResourceDefinition, t taken) (apiextensionsv1.CustomResourceDefinitionNames, apiextensionsv1.CustomResourceDefinitionCondition) {
	want, names := crd.Spec.Names, *crd.Status.AcceptedNames.DeepCopy()
	cond := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found",
	}
	refuse := func(reason, message string) {
		cond.Status, cond.Reason, cond.Message = apiextensionsv1.ConditionFalse, reason, message
	}
	one := func(has *string, wants string, used func(string) bool, reason string) {
		if *has != wants && used(wants) {
			refuse(reason, fmt.Sprintf("%q is already in use", wants))
			return
		}
		*has = wants
	}
	one(&names.Plural, want.Plural, t.resource, "PluralConflict")
	one(&names.Singular, want.Singular, t.resource, "SingularConflict")
	var clashes []string
	for _, name := range want.ShortNames {
		if !slices.Contains(names.ShortNames, name) && t.resource(name) {
			clashes = append(clashes, fmt.Sprintf("%q is already in use", name))
		}
	}
	switch len(clashes) {
	case 0:
		names.ShortNames = want.ShortNames
	case 1:
		refuse("ShortNamesConflict", clashes[0])
	default:
		refuse("ShortNamesConflict", "["+strings.Join(clashes, ", ")+"]")
	}
	one(&names.Kind, want.Kind, t.kind, "KindConflict")
	one(&names.ListKind, want.ListKind, t.kind, "ListKindConflict")
	names.Categories = want.Categories
	return names, cond
}
