package crd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// strategy holds what happens to a custom resource on its way to the store, by
// the version that is stored.
type strategy struct {
	status bool // the status is a subresource: law 5
}

func (s strategy) prepareCreate(_ context.Context, obj kinds.Object) {
	o := obj.(*Object)
	if s.status {
		delete(o.Fields, "status")
	}
	o.Generation = 1
}

// prepareUpdate counts the generation up when anything but metadata changed.
func (s strategy) prepareUpdate(_ context.Context, obj, old kinds.Object) {
	o, was := obj.(*Object), old.(*Object)
	if s.status {
		if status, ok := was.Fields["status"]; ok {
			o.Fields["status"] = status
		} else {
			delete(o.Fields, "status")
		}
	}
	if !equal(o.Fields, was.Fields) {
		o.Generation = was.Generation + 1
	}
}

// equal compares values of JSON.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, one := range a {
			if other, there := b[key]; !there || !equal(one, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// prepareStatus lets nothing but the status change.
func (s strategy) prepareStatus(_ context.Context, obj, old kinds.Object) {
	o, was := obj.(*Object), old.(*Object)
	status, ok := o.Fields["status"]
	managed := o.ManagedFields
	next := was.shallow()
	next.ManagedFields = managed
	if ok {
		next.Fields["status"] = status
	} else {
		delete(next.Fields, "status")
	}
	*o = *next
}

// warnings tell of finalizers that others may come to use as well.
func warnings(_ context.Context, obj, old kinds.Object) (out []string) {
	var had []string
	if old != nil {
		had = old.GetFinalizers()
	}
	added := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return slices.Contains(had, f) })
	slices.Sort(added)
	for _, f := range slices.Compact(added) {
		for _, text := range validation.IsQualifiedName(f) {
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: %s", f, text))
		}
		switch {
		case strings.Contains(f, "/"), f == metav1.FinalizerOrphanDependents, f == metav1.FinalizerDeleteDependents, f == string(corev1.FinalizerKubernetes):
		case strings.Contains(f, "."):
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", f))
		default:
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers", f))
		}
	}
	return out
}
