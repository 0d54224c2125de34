package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ByController indexes objects by the uid of the owner that controls them.
// Those that nobody controls lie where an owner who wants to adopt finds them:
// under Uncontrolled, and under UncontrolledWith for each of their labels.
const ByController = "controller"

// IndexByController adds the ByController index to a view.
func IndexByController(v View) { v.Index(ByController, controllerOf) }

func controllerOf(obj Object) []string {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return []string{string(ref.UID)}
	}
	labels := obj.GetLabels()
	values := make([]string, 0, 1+len(labels))
	values = append(values, Uncontrolled(obj.GetNamespace()))
	for key, value := range labels {
		values = append(values, UncontrolledWith(obj.GetNamespace(), key, value))
	}
	return values
}

// Uncontrolled is the value in the ByController index of what nobody controls
// in a namespace.
func Uncontrolled(namespace string) string { return "/" + namespace }

// UncontrolledWith is the value in the ByController index of what nobody
// controls in a namespace and has a label.
func UncontrolledWith(namespace, key, value string) string {
	return "/" + namespace + "/" + key + "=" + value
}
