package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ByController indexes objects by the uid of the owner that controls them.
// Those that nobody controls lie under "/" and their namespace, where an owner
// who wants to adopt finds them.
const ByController = "controller"

// IndexByController adds the ByController index to a view.
func IndexByController(v View) { v.Index(ByController, controllerOf) }

func controllerOf(obj Object) []string {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return []string{string(ref.UID)}
	}
	return []string{Uncontrolled(obj.GetNamespace())}
}

// Uncontrolled is the value in the ByController index of what nobody controls
// in a namespace.
func Uncontrolled(namespace string) string { return "/" + namespace }
