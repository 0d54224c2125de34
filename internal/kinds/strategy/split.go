package strategy

import (
	"context"
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Split knows where a type keeps its claim and where its status, and sees to
// it that a write of one leaves the other alone. The claim is all fields but
// metadata and status, for most kinds the one field "spec".
type Split struct {
	claim  []int // fields of the struct
	status int   // -1: none
	counts bool  // metadata.generation counts the claim's changes
}

// Of is the split of *T. Types without a field Status have a claim only.
func Of[T any]() *Split {
	t := reflect.TypeFor[T]()
	s := &Split{status: -1}
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Anonymous: // TypeMeta and ObjectMeta
		case f.Name == "Status":
			s.status = i
		default:
			s.claim = append(s.claim, i)
		}
	}
	return s
}

// Counted is Of for a kind that counts generations.
func Counted[T any]() *Split {
	s := Of[T]()
	s.counts = true
	return s
}

func elem(obj kinds.Object) reflect.Value { return reflect.ValueOf(obj).Elem() }

// PrepareCreate clears the status of a new object and starts its generations.
// Kinds that do not count have no generation, whatever a client sends.
func (s *Split) PrepareCreate(_ context.Context, obj kinds.Object) {
	if s.status >= 0 {
		elem(obj).Field(s.status).SetZero()
	}
	if s.counts {
		obj.SetGeneration(1)
	}
}

// PrepareUpdate keeps the status and counts the generation up if the claim
// changed.
func (s *Split) PrepareUpdate(_ context.Context, obj, old kinds.Object) {
	to, from := elem(obj), elem(old)
	if s.status >= 0 {
		to.Field(s.status).Set(from.Field(s.status))
	}
	if s.counts && s.claimed(to, from) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

// claimed tells whether the claims differ.
func (s *Split) claimed(a, b reflect.Value) bool {
	for _, i := range s.claim {
		if !apiequality.Semantic.DeepEqual(a.Field(i).Addr().Interface(), b.Field(i).Addr().Interface()) {
			return true
		}
	}
	return false
}

// PrepareStatus keeps the claim. Metadata may change with a status, as
// upstream allows for most kinds.
func (s *Split) PrepareStatus(_ context.Context, obj, old kinds.Object) {
	to, from := elem(obj), elem(old)
	for _, i := range s.claim {
		to.Field(i).Set(from.Field(i))
	}
}

// PrepareStatusOnly is PrepareStatus for the kinds where not even metadata
// changes with a status: upstream's younger ones.
func (s *Split) PrepareStatusOnly(ctx context.Context, obj, old kinds.Object) {
	s.PrepareStatus(ctx, obj, old)
	obj.SetLabels(old.GetLabels())
	obj.SetAnnotations(old.GetAnnotations())
	obj.SetFinalizers(old.GetFinalizers())
	obj.SetOwnerReferences(old.GetOwnerReferences())
}

// Status is the subresource of a kind whose status has no rules of its own.
func (s *Split) Status() *kinds.Subresource {
	return &kinds.Subresource{Verbs: View(), PrepareUpdate: s.PrepareStatus}
}

// StatusOnly is Status with PrepareStatusOnly.
func (s *Split) StatusOnly() *kinds.Subresource {
	return &kinds.Subresource{Verbs: View(), PrepareUpdate: s.PrepareStatusOnly}
}

// View are the verbs of a subresource that is read and written.
func View() []string { return []string{"get", "patch", "update"} }
