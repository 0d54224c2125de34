// Package kinds describes what the API server serves. A Kind holds all that is
// particular to one kind of object: its names, versions, defaults, rules,
// columns and subresources. The API server knows nothing of any kind but what
// stands in its Kind, so a custom resource, described by the same struct, is
// served by the same code as a Deployment (law 6).
//
// The kinds of an API group live in a folder below this one, a file a kind;
// package kinds/all lists them. Adding a kind is one file and one line there.
//
// Kinds are plain values without state: every function in them is pure,
// may be called from many goroutines, and changes only the object that its
// comment says it changes.
package kinds

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Object is any API object. Built-in kinds use the types of k8s.io/api.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind describes one kind of object.
//
//	request body --decode--> Version.New --Default--> ToHub --> hub object
//	  create: PrepareCreate -> Validate -> store (encoded as Versions[Storage])
//	  update: PrepareUpdate -> ValidateUpdate -> store
//	hub object --FromHub--> encode --> response
type Kind struct {
	Resource   schema.GroupResource // deployments.apps; the group is "" for core
	Kind       string               // "Deployment"
	ListKind   string               // "" means Kind with List behind it
	Singular   string               // "deployment"
	ShortNames []string
	Categories []string
	Namespaced bool
	// StoragePrefix is where the objects lie in the store, as Kubernetes has
	// it: "/registry/deployments/". Ends in "/". "" where nothing is stored:
	// reviews, and what is computed when somebody asks.
	StoragePrefix string

	// Versions are the versions in which the kind is served, the preferred one
	// first. One of them is the hub: the version that is stored and that every
	// function below works on. Versions may be of several groups (events).
	Versions []Version
	Hub      int // index into Versions

	// NoVerbs are standard verbs that the kind does not serve, e.g. all but
	// "create" for a review.
	NoVerbs []string

	// PrepareCreate makes a new object ready to be validated: clears what a
	// client may not set (status, as a rule) and sets generation to 1 where
	// the kind counts generations. Changes obj. Nil: nothing to do.
	PrepareCreate func(ctx context.Context, obj Object)
	// PrepareUpdate carries over from old what an update of the main resource
	// may not change (status, as a rule) and counts the generation up when the
	// claim changed. Changes obj, never old.
	PrepareUpdate func(ctx context.Context, obj, old Object)
	// Validate checks a new object, ValidateUpdate a changed one (it also
	// checks whatever Validate checks). Metadata common to all kinds is
	// already checked by the API server, with ValidateName for the name.
	Validate       func(ctx context.Context, obj Object) field.ErrorList
	ValidateUpdate func(ctx context.Context, obj, old Object) field.ErrorList
	// Warnings are sent to the client as warning headers.
	Warnings func(ctx context.Context, obj, old Object) []string
	// ValidateName says what is wrong with a name ("" prefix of generateName
	// when prefix is true). Nil: a DNS subdomain.
	ValidateName func(name string, prefix bool) []string

	// AllowCreateOnUpdate lets PUT create an object (Lease, as upstream).
	AllowCreateOnUpdate bool
	// AllowUnconditionalUpdate lets PUT without a resourceVersion win over
	// what is there; true for nearly every kind upstream.
	AllowUnconditionalUpdate bool

	// Subresources by name: "status", "scale", ... Those that are not plain
	// views of the object (binding, eviction, log, exec, token) are served by
	// the API server's own handlers, which look up the name only for discovery.
	Subresources map[string]*Subresource

	// SelectableFields are the fields that field selectors may name, besides
	// metadata.name and metadata.namespace. Nil: none. FieldNames lists them.
	SelectableFields func(obj Object) fields.Set
	FieldNames       []string

	// Grace decides on a delete request how long the object keeps running (a
	// pod): it returns the seconds, and true when deletion is to be graceful,
	// that is, the object stays with a deletionTimestamp until somebody
	// deletes it with 0 seconds. Nil: objects go at once. seconds is nil when
	// the request names none.
	Grace func(obj Object, seconds *int64) (int64, bool)

	// PrepareDelete changes an object that a request begins to delete, which
	// then stays until its finalizers have gone. Nil: nothing to do.
	PrepareDelete func(ctx context.Context, obj Object)

	// Columns are what `kubectl get` shows.
	Columns []Column

	// Decode reads what is stored into an object of the hub version. Nil: as
	// the hub's type reads itself. A custom kind may have objects that were
	// stored in another of its versions.
	Decode func(value []byte) (Object, error)
}

// Version is one version in which a kind is served.
type Version struct {
	GroupVersion schema.GroupVersion
	Kind         string // "" means that of the Kind
	New          func() Object
	NewList      func() runtime.Object
	// Default fills in defaults on an object of this version. Changes obj.
	Default func(obj Object)
	// ToHub and FromHub convert from and to the hub; nil in the hub itself.
	// They return new objects and never change what they are given.
	ToHub, FromHub func(obj Object) (Object, error)

	// What follows is for kinds whose versions differ in more than their
	// types: custom ones.

	// Unserved versions are stored, or were once, and nobody can ask for them.
	Unserved bool
	// Warning is sent with every answer in this version: it is deprecated.
	Warning string
	// Validate checks an object of this version when it is written in it,
	// besides the Kind's rules. old is nil for a new object; subresource says
	// as what it is written, "" for the object itself.
	Validate func(ctx context.Context, obj, old Object, subresource string) field.ErrorList
	// Subresources that this version has; nil: all of the Kind's.
	Subresources []string
	// Own are those of them that are not as the Kind's. What is given to them,
	// and what they return, is of the hub all the same.
	Own map[string]*Subresource
	// SelectableFields and FieldNames are those of this version where they are
	// not the Kind's.
	SelectableFields func(obj Object) fields.Set
	FieldNames       []string
	// Columns are those of this version where they are not the Kind's; cells
	// are given objects of this version.
	Columns []Column
	// Schema describes the objects where no Go type does. Nil: the type does.
	Schema Schema
}

// Schema describes the objects of one version of a custom kind. It is made
// when it is first asked for; what it returns is shared and must not be
// changed.
type Schema interface {
	// OpenAPI is the schema as JSON, in OpenAPI's version 3; when two is true
	// as version 2, without what that cannot say. What all objects have
	// (apiVersion, kind, metadata) need not be in it.
	OpenAPI(two bool) ([]byte, error)
	// Typed is how server-side apply merges the objects.
	Typed() *typed.ParseableType
	// Hash changes when OpenAPI's answer does.
	Hash() string
}

// Dynamic is an object whose fields no Go type lists: a custom resource. It
// reads and writes itself, and its media types are JSON and YAML only.
type Dynamic interface {
	Object
	// DecodeJSON reads the object. What its schema does not know is dropped;
	// strict asks to be told of it, and of duplicate fields.
	DecodeJSON(data []byte, strict bool) ([]error, error)
	// EncodeJSON writes the object, with its type first.
	EncodeJSON() ([]byte, error)
	// Body is all of the object but apiVersion, kind and metadata. It is the
	// object's own, and must not be changed.
	Body() map[string]any
	// Unstructured is the object as client-go has it. It shares what it holds.
	Unstructured() *unstructured.Unstructured
}

// Settler is an object that can become what reading its encoding back gives.
type Settler interface {
	Object
	// Settle is false where it takes reading to know; the object may have
	// changed all the same. What others may share is copied first.
	Settle() bool
}

// Subresource is a view of an object that is read and written by itself.
type Subresource struct {
	// GroupVersionKind of what is read and written; zero means the kind itself.
	GroupVersionKind schema.GroupVersionKind
	// Verbs that it serves: a subset of get, update, patch, create.
	Verbs []string

	// For views of the kind itself (status): PrepareUpdate carries over from
	// old all that the view may not change; ValidateUpdate checks the rest.
	PrepareUpdate  func(ctx context.Context, obj, old Object)
	ValidateUpdate func(ctx context.Context, obj, old Object) field.ErrorList

	// Replicas is where in an object of the version that is asked for the number
	// stands that a scale changes. Nil: spec.replicas.
	Replicas []string
	// For views of another type (scale): NewView makes an empty one, Get
	// derives it from the object, Set returns a changed copy of the object.
	// Before derives the view that a change begins with, where that may lack
	// what Get cannot do without; nil: Get.
	NewView func() Object
	Get     func(obj Object) (Object, error)
	Before  func(obj Object) (Object, error)
	Set     func(obj, view Object) (Object, error)
}

// Column is one column of the table that `kubectl get` shows.
type Column struct {
	metav1.TableColumnDefinition
	// Cell returns a string, int64, bool or nil. Times are given as strings
	// of an age ("5m"), as upstream has it.
	Cell func(obj Object) any
}

// HubVersion is the version that is stored.
func (k *Kind) HubVersion() *Version { return &k.Versions[k.Hub] }

// GVK of the hub version.
func (k *Kind) GVK() schema.GroupVersionKind {
	v := k.HubVersion()
	return v.GroupVersion.WithKind(k.VersionKind(v))
}

// VersionKind is the name of the kind in version v.
func (k *Kind) VersionKind(v *Version) string {
	if v.Kind != "" {
		return v.Kind
	}
	return k.Kind
}

// Subresource finds a subresource that version v has; nil when it has none of
// that name.
func (k *Kind) Subresource(v *Version, name string) *Subresource {
	if v.Subresources != nil && !slices.Contains(v.Subresources, name) {
		return nil
	}
	if own := v.Own[name]; own != nil {
		return own
	}
	return k.Subresources[name]
}

// Key is where an object lies in the store.
func (k *Kind) Key(namespace, name string) string {
	if k.Namespaced {
		return k.StoragePrefix + namespace + "/" + name
	}
	return k.StoragePrefix + name
}

// Prefix is where the objects of a namespace lie; all of them for "".
func (k *Kind) Prefix(namespace string) string {
	if k.Namespaced && namespace != "" {
		return k.StoragePrefix + namespace + "/"
	}
	return k.StoragePrefix
}
