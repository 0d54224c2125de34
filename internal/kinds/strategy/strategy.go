// Package strategy holds what most kinds have in common: types by generics
// instead of casts, the separation of claim and status (law 5), the scale view
// and the columns every table has.
//
// A kind file composes these into a kinds.Kind:
//
//	Versions:      []kinds.Version{strategy.Version[appsv1.Deployment, appsv1.DeploymentList](v1, defaultDeployment)},
//	PrepareCreate: split.PrepareCreate,
//	Validate:      strategy.Validate(validateDeployment),
//
// Everything here is pure and safe for concurrent use. A function that gets an
// object of another type than its kind's panics: that is a broken invariant of
// the API server, never the fault of a request.
package strategy

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

type pointer[T any] interface {
	*T
	kinds.Object
}

type listPointer[L any] interface {
	*L
	runtime.Object
}

// Version is a version whose objects are *T and whose lists are *L. def fills
// in defaults; nil if there are none.
func Version[T, L any, P pointer[T], PL listPointer[L]](gv schema.GroupVersion, def func(P)) kinds.Version {
	v := Unlisted[T, P](gv, def)
	v.NewList = func() runtime.Object { return PL(new(L)) }
	return v
}

// Unlisted is Version for a kind that is never listed: a review.
func Unlisted[T any, P pointer[T]](gv schema.GroupVersion, def func(P)) kinds.Version {
	v := kinds.Version{GroupVersion: gv, New: func() kinds.Object { return P(new(T)) }}
	if def != nil {
		v.Default = func(obj kinds.Object) { def(obj.(P)) }
	}
	return v
}

// Validate gives a check of *T the form that a Kind wants.
func Validate[P kinds.Object](check func(P) field.ErrorList) func(context.Context, kinds.Object) field.ErrorList {
	return func(_ context.Context, obj kinds.Object) field.ErrorList { return check(obj.(P)) }
}

// ValidateUpdate is Validate for a change.
func ValidateUpdate[P kinds.Object](check func(obj, old P) field.ErrorList) func(context.Context, kinds.Object, kinds.Object) field.ErrorList {
	return func(_ context.Context, obj, old kinds.Object) field.ErrorList { return check(obj.(P), old.(P)) }
}

// PrepareCreate gives a preparation of a new *T the form that a Kind wants.
func PrepareCreate[P kinds.Object](prepare func(P)) func(context.Context, kinds.Object) {
	return func(_ context.Context, obj kinds.Object) { prepare(obj.(P)) }
}

// PrepareUpdate gives a preparation of a changed *T the form that a Kind wants.
func PrepareUpdate[P kinds.Object](prepare func(obj, old P)) func(context.Context, kinds.Object, kinds.Object) {
	return func(_ context.Context, obj, old kinds.Object) { prepare(obj.(P), old.(P)) }
}

// Warnings gives a source of warnings the form that a Kind wants. old is nil
// on create.
func Warnings[T any, P pointer[T]](warn func(obj, old P) []string) func(context.Context, kinds.Object, kinds.Object) []string {
	return func(_ context.Context, obj, old kinds.Object) []string {
		if old == nil {
			return warn(obj.(P), nil)
		}
		return warn(obj.(P), old.(P))
	}
}

// Fields gives a function from *T to its selectable fields the form that a
// Kind wants.
func Fields[P kinds.Object](f func(P) fields.Set) func(kinds.Object) fields.Set {
	return func(obj kinds.Object) fields.Set { return f(obj.(P)) }
}

// OnlyCreate are the verbs that a review does not serve.
func OnlyCreate() []string {
	return []string{"delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}
