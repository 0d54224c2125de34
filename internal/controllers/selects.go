package controllers

import (
	"slices"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// Selects tells whether a selector matches an object's labels. A selector that
// is empty or wrong matches nothing: nobody may claim a whole namespace.
func Selects(selector *metav1.LabelSelector, obj client.Object) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(obj.GetLabels()))
}

// byLabel indexes objects by namespace and each of their labels.
const byLabel = "controllers.label"

// IndexByLabel prepares a view for Selected.
func IndexByLabel(v client.View) {
	v.Index(byLabel, func(obj client.Object) []string {
		set := obj.GetLabels()
		values := make([]string, 0, len(set))
		for k, l := range set {
			values = append(values, labelValue(obj.GetNamespace(), k, l))
		}
		return values
	})
}

func labelValue(namespace, key, value string) string {
	return unique.Make(namespace + "/" + key + "=" + value).Value() // many objects share it
}

// Selected returns the objects of a namespace that have all the labels of set,
// from a view that IndexByLabel has prepared. It costs as much as there are
// objects with the rarest of the labels. An empty set selects nothing.
func Selected[T client.Object](v client.View, namespace string, set map[string]string) []T {
	rarest, least := "", -1
	for k, l := range set {
		value := labelValue(namespace, k, l)
		if n := v.CountIndex(byLabel, value); least < 0 || n < least {
			rarest, least = value, n
		}
	}
	if least <= 0 {
		return nil
	}
	objs := client.Indexed[T](v, byLabel, rarest)
	if len(set) == 1 {
		return objs
	}
	return slices.DeleteFunc(objs, func(obj T) bool { return !HasAll(obj.GetLabels(), set) })
}

// HasAll tells whether a set of labels has all of another.
func HasAll(set, all map[string]string) bool {
	for k, v := range all {
		if had, ok := set[k]; !ok || had != v {
			return false
		}
	}
	return true
}

// bySelector indexes what has a selector by namespace and one label that it
// asks for: what is selected has that label.
const bySelector = "controllers.selector"

// IndexBySelector prepares a view for Selecting. selector returns the labels
// that an object asks of what it selects, all or some of them.
func IndexBySelector(v client.View, selector func(client.Object) map[string]string) {
	v.Index(bySelector, func(obj client.Object) []string {
		set := selector(obj)
		if len(set) == 0 {
			return []string{obj.GetNamespace()}
		}
		first := ""
		for k := range set {
			if first == "" || k < first {
				first = k
			}
		}
		return []string{labelValue(obj.GetNamespace(), first, set[first])}
	})
}

// Selecting returns, from a view that IndexBySelector has prepared, the objects
// of a namespace that may select what has the labels of set: all that do, and
// some that ask for more. It costs as much as set has labels and there are
// objects that ask for one of them or for none.
func Selecting[T client.Object](v client.View, namespace string, set map[string]string) []T {
	out := client.Indexed[T](v, bySelector, namespace)
	for k, l := range set {
		out = append(out, client.Indexed[T](v, bySelector, labelValue(namespace, k, l))...)
	}
	return out
}

// LookAtAdopters looks at those in a view, prepared by IndexBySelector, that
// may adopt obj, which nobody controls.
func LookAtAdopters[T client.Object](l *loop.Loop, v client.View, obj client.Object, selector func(T) *metav1.LabelSelector) {
	if obj == nil || metav1.GetControllerOfNoCopy(obj) != nil {
		return
	}
	for _, owner := range Selecting[T](v, obj.GetNamespace(), obj.GetLabels()) {
		if Selects(selector(owner), obj) {
			l.Look(KeyOf(owner))
		}
	}
}

// MatchLabels makes an argument of IndexBySelector of a selector.
func MatchLabels[T client.Object](selector func(T) *metav1.LabelSelector) func(client.Object) map[string]string {
	return func(obj client.Object) map[string]string {
		t, ok := obj.(T)
		if !ok {
			return nil
		}
		if s := selector(t); s != nil {
			return s.MatchLabels
		}
		return nil
	}
}
