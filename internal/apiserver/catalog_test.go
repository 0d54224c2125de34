package apiserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// TestBuiltinGroups: a group with a built-in kind stays one, whatever kinds users
// define in it, and wherever those stand in the list.
func TestBuiltinGroups(t *testing.T) {
	type custom struct{ kinds.Dynamic }
	of := func(group string, made func() kinds.Object) *resource {
		return &resource{kind: &kinds.Kind{Versions: []kinds.Version{{GroupVersion: schema.GroupVersion{Group: group, Version: "v1"}, New: made}}}}
	}
	ours, theirs := func() kinds.Object { return nil }, func() kinds.Object { return custom{} }
	for _, list := range [][]*resource{
		{of("shared", ours), of("theirs", theirs), of("shared", theirs)},
		{of("shared", theirs), of("theirs", theirs), of("shared", ours)},
	} {
		c := &catalog{resources: list}
		if !c.builtin("shared") || c.builtin("theirs") || c.builtin("nobody's") {
			t.Errorf("shared: %t, theirs: %t, nobody's: %t", c.builtin("shared"), c.builtin("theirs"), c.builtin("nobody's"))
		}
	}
}
