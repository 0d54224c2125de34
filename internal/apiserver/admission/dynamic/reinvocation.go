package dynamic

import (
	"bytes"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// reinvocation is who of one plugin is asked a second time about a request.
//
//	first time:  everybody is asked. Whoever changes the object makes all due
//	             who were asked before it and want to be asked again.
//	in between:  all plugins saw the object once more. If that changed it, all
//	             are due who want to be asked again.
//	second time: who is due.
//
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#reinvocation-policy
type reinvocation struct {
	left   kinds.Object    // a copy of the object as the plugin left it, if anybody wants to be asked again
	wanted []string        // since the last change
	due    map[string]bool // the second time
}

// reinvocationOf begins a plugin's first or second time.
func reinvocationOf(r *admission.Request, plugin string) *reinvocation {
	a, ok := r.Notes[plugin].(*reinvocation)
	if !ok {
		a = &reinvocation{}
		if !r.Again {
			r.Note(plugin, a)
		}
		return a
	}
	if r.Again && a.left != nil && !same(a.left, r.Object) {
		a.changed(r)
	}
	return a
}

func (a *reinvocation) skips(r *admission.Request, key string) bool { return r.Again && !a.due[key] }

// want remembers who was asked and wants to be asked again.
func (a *reinvocation) want(key string) { a.wanted = append(a.wanted, key) }

// changed says that the object is another than those saw who were asked so far.
func (a *reinvocation) changed(r *admission.Request) {
	r.Changed = true
	if a.due == nil {
		a.due = map[string]bool{}
	}
	for _, key := range a.wanted {
		a.due[key] = true
	}
	a.wanted = nil
}

// leave ends a plugin's first time.
func (a *reinvocation) leave(r *admission.Request) {
	if !r.Again && len(a.wanted) > 0 && r.Object != nil {
		a.left = r.Object.DeepCopyObject().(kinds.Object)
	}
}

// same tells whether two objects say the same.
func same(a, b kinds.Object) bool {
	x, ok := a.(kinds.Dynamic)
	y, both := b.(kinds.Dynamic)
	if !ok || !both {
		return apiequality.Semantic.DeepEqual(a, b)
	}
	before, err := x.EncodeJSON()
	after, err2 := y.EncodeJSON()
	return err == nil && err2 == nil && bytes.Equal(before, after)
}
