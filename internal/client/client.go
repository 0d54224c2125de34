// Package client is how every loop talks to the front door. There are two
// implementations of Interface with one behaviour: the API server's own, in
// process (apiserver.Server.Client), which walks the same request path
// (authorize, default, admit, validate, store) but hands over
// objects instead of bytes, and Remote, over the network.
//
// Objects: what Get, List, Watch and View return is shared and immutable;
// DeepCopy before changing. What is given to Create and Update is copied by
// the implementation, so it stays the caller's. Objects are those of
// k8s.io/api for built-in kinds, *unstructured.Unstructured for others and
// *metav1.PartialObjectMetadata from a metadata View.
//
// Errors are those of k8s.io/apimachinery/pkg/api/errors: IsNotFound,
// IsConflict and so on.
package client

import (
	"context"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is any API object.
type Object interface {
	runtime.Object
	metav1.Object
}

// Resource names what a request is about, in one served version.
type Resource = schema.GroupVersionResource

// Interface is what any client can do.
type Interface interface {
	Get(ctx context.Context, res Resource, namespace, name string) (Object, error)
	// List returns shared objects and the resourceVersion of the list.
	List(ctx context.Context, res Resource, namespace string, opts metav1.ListOptions) ([]Object, string, error)
	Watch(ctx context.Context, res Resource, namespace string, opts metav1.ListOptions) (watch.Interface, error)

	// Create creates obj; a subresource (binding, eviction, token) is created
	// on the object that obj's name names, and the answer may be of another
	// type than obj, or nil when the server has nothing to show (binding).
	Create(ctx context.Context, res Resource, obj Object, subresource ...string) (Object, error)
	// Update replaces obj, or one subresource of it ("status", "scale").
	Update(ctx context.Context, res Resource, obj Object, subresource ...string) (Object, error)
	Patch(ctx context.Context, res Resource, namespace, name string, pt types.PatchType, data []byte, subresource ...string) (Object, error)
	Delete(ctx context.Context, res Resource, namespace, name string, opts metav1.DeleteOptions) error
	DeleteCollection(ctx context.Context, res Resource, namespace string, del metav1.DeleteOptions, opts metav1.ListOptions) error

	// Raw reads a path ("/apis/apps/v1/namespaces/a/deployments/b/scale") as
	// JSON, for what has no object here: subresources, and what other servers
	// serve behind the front door.
	Raw(ctx context.Context, path string, query url.Values) ([]byte, error)

	// View is a picture of a resource that follows the server. In process it
	// reads the API server's own objects; over the network it lists and
	// watches. Views with equal options are shared within a client.
	View(res Resource, opts ViewOptions) View

	// Resources lists what the server serves now (discovery), for loops that
	// work on every kind. One entry for each resource, in its preferred
	// version.
	Resources(ctx context.Context) ([]ResourceInfo, error)
}

// ResourceInfo is one served resource, or, without a name and verbs, a version
// of a group of which nobody can say what is in it.
type ResourceInfo struct {
	Resource   Resource
	Kind       string
	Namespaced bool
	Verbs      []string
	// Stale says that whoever serves it does not answer now.
	Stale bool
}

// ViewOptions narrow a View.
type ViewOptions struct {
	Namespace     string // "" is all
	FieldSelector string // "spec.nodeName=n1"
	LabelSelector string
	// Metadata asks for *metav1.PartialObjectMetadata only.
	Metadata bool
}

// View is a picture of a resource: each object as some revision left it,
// never older than what the view showed before.
//
// A loop may read its own writes: after a write that returned revision R,
// WaitFor(R) blocks until the view shows R or later. In process it is
// immediate.
type View interface {
	// Get returns the shared object, or nil.
	Get(namespace, name string) Object
	// List returns the shared objects of a namespace ("" is all) in no
	// particular order. The slice is the caller's.
	List(namespace string) []Object
	// Index adds an index, at any time; ByIndex returns the
	// objects with a value under it, in cost of what matches. Adding an index
	// with a name that exists changes nothing.
	Index(name string, values func(Object) []string)
	ByIndex(name, value string) []Object
	// CountIndex is how many objects ByIndex would return, in a cost that does
	// not depend on how many they are.
	CountIndex(name, value string) int
	// Handle calls f for what is there and for each change: old is nil for
	// what is new, new is nil for what is gone. Calls come in order from one
	// goroutine; f must be quick (put a key into a queue). A change may be
	// told twice, and changes of one object in quick succession may be told as
	// one. The func returned takes the handler away.
	Handle(f func(old, new Object)) (remove func())
	// WaitSynced blocks until the view has once shown everything there is.
	WaitSynced(ctx context.Context) error
	// WaitFor blocks until the view shows revision or later.
	WaitFor(ctx context.Context, resourceVersion string) error
}

// EachVersion calls f for each object that a view shows, in no particular order,
// with its resourceVersion. Where the view can tell that without reading the
// objects, none is read: it is for those who look again at everything now and
// then, of which nearly all is as it was.
func EachVersion(v View, f func(namespace, name, resourceVersion string)) {
	if v, ok := v.(interface {
		EachVersion(func(namespace, name, resourceVersion string))
	}); ok {
		v.EachVersion(f)
		return
	}
	for _, obj := range v.List("") {
		f(obj.GetNamespace(), obj.GetName(), obj.GetResourceVersion())
	}
}

// Identity is who a client is, and the user agent that it names. Both
// implementations take it at construction; over the network the credentials
// say who one is.
type Identity struct {
	User      string // "system:kube-controller-manager"
	Groups    []string
	UserAgent string // "setpoint-controllers"
}
