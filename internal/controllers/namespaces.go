package controllers

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// Active tells whether things may be created in a namespace; not in nil.
func Active(ns *corev1.Namespace) bool {
	return ns != nil && ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceTerminating
}

// LookAtNamespace is a Changed for a loop whose keys are namespaces and that
// keeps an object of the given name in each.
func LookAtNamespace(l *loop.Loop, name string) func(old, new client.Object) {
	return func(old, new client.Object) {
		if obj := Present(old, new); obj.GetName() == name {
			l.Look(loop.Key{Name: obj.GetNamespace()})
		}
	}
}
