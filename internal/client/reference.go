package client

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// groups are the API groups whose name is not that of their folder in
// k8s.io/api.
var groups = map[string]string{
	"core":                  "",
	"admissionregistration": "admissionregistration.k8s.io",
	"authentication":        "authentication.k8s.io",
	"authorization":         "authorization.k8s.io",
	"certificates":          "certificates.k8s.io",
	"coordination":          "coordination.k8s.io",
	"discovery":             "discovery.k8s.io",
	"events":                "events.k8s.io",
	"flowcontrol":           "flowcontrol.apiserver.k8s.io",
	"networking":            "networking.k8s.io",
	"node":                  "node.k8s.io",
	"rbac":                  "rbac.authorization.k8s.io",
	"resource":              "resource.k8s.io",
	"scheduling":            "scheduling.k8s.io",
	"storage":               "storage.k8s.io",
}

// KindOf tells the group, version and kind of an object, from what it says of
// itself or, for the types of k8s.io/api, from its type: objects shared in
// process do not carry their kind.
func KindOf(obj Object) schema.GroupVersionKind {
	if gvk := obj.GetObjectKind().GroupVersionKind(); gvk.Kind != "" {
		return gvk
	}
	t := reflect.TypeOf(obj).Elem()
	folder, ok := strings.CutPrefix(t.PkgPath(), "k8s.io/api/")
	group, version, cut := strings.Cut(folder, "/")
	if !ok || !cut {
		return schema.GroupVersionKind{Kind: t.Name()}
	}
	if name, ok := groups[group]; ok {
		group = name
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: t.Name()}
}

// ReferenceTo is how an event names an object.
func ReferenceTo(obj Object) corev1.ObjectReference {
	apiVersion, kind := KindOf(obj).ToAPIVersionAndKind()
	return corev1.ObjectReference{
		APIVersion: apiVersion, Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}
}
