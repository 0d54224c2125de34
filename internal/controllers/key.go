package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// KeyOf is the key of an object.
func KeyOf(obj client.Object) loop.Key {
	return loop.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// ControllerKey is the key of the object that controls obj, when it is of the
// given kind. obj may be nil.
func ControllerKey(obj client.Object, kind string) (loop.Key, bool) {
	if obj == nil {
		return loop.Key{}, false
	}
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != kind {
		return loop.Key{}, false
	}
	return loop.Key{Namespace: obj.GetNamespace(), Name: ref.Name}, true
}
