package apiserver

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/intern"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// resource is one kind as this server serves it.
type resource struct {
	kind       *kinds.Kind
	gr         schema.GroupResource
	namespaced bool
	served     []*served // one for each of kind.Versions
	hub        *served   // the one that is stored
	methods    map[string]bool

	// What follows asks for behaviour that stands in no field of Kind.
	isPods, isNamespaces bool
	dynamic              bool        // came by Serve
	closed               atomic.Bool // takes no new objects: it is about to go

	parts   *intern.Table // what objects that are read from the store share
	readers readers
	fields  fieldManagers
}

// served is a resource in one of its versions. The group may differ from the
// resource's (events).
type served struct {
	*resource
	version  *kinds.Version
	index    int
	gvk      schema.GroupVersionKind
	gvr      schema.GroupVersionResource
	jsonHead []byte // how the JSON of an object begins: its kind and version
	listHead []byte // how the JSON of a list begins
	listKind string
	wire     *envelope
}

func newResource(k *kinds.Kind) *resource {
	res := &resource{kind: k, gr: k.Resource, namespaced: k.Namespaced, methods: map[string]bool{}}
	for _, verb := range [...]string{"create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"} {
		res.methods[verb] = true
	}
	for _, verb := range k.NoVerbs {
		delete(res.methods, verb)
	}
	core := k.HubVersion().GroupVersion.Group == ""
	res.isPods = core && k.Resource.Resource == "pods"
	res.isNamespaces = core && k.Resource.Resource == "namespaces"
	for i := range k.Versions {
		v := &k.Versions[i]
		gvk := v.GroupVersion.WithKind(k.VersionKind(v))
		apiVersion, kind := gvk.ToAPIVersionAndKind()
		listKind := kind + "List"
		if k.ListKind != "" {
			listKind = k.ListKind
		}
		sv := &served{
			resource: res, version: v, index: i, gvk: gvk,
			gvr:      v.GroupVersion.WithResource(k.Resource.Resource),
			listKind: listKind,
			jsonHead: []byte(`{"kind":"` + kind + `","apiVersion":"` + apiVersion + `",`),
			listHead: []byte(`{"kind":"` + listKind + `","apiVersion":"` + apiVersion + `","metadata":{`),
		}
		if _, ok := v.New().(protoMessage); ok {
			sv.wire = newEnvelope(apiVersion, kind)
		}
		res.served = append(res.served, sv)
	}
	res.hub = res.served[k.Hub]
	return res
}

// path is how the catalog finds what a URL names.
func (sv *served) path() string {
	return sv.gvr.Group + "/" + sv.gvr.Version + "/" + sv.gvr.Resource
}

// preferred is the first version that is served, nil if none is.
func (res *resource) preferred() *served {
	for _, sv := range res.served {
		if !sv.version.Unserved {
			return sv
		}
	}
	return nil
}

// in finds the version that an older catalog knew as sv; the hub when it is
// there no more.
func (res *resource) in(sv *served) *served {
	for _, s := range res.served {
		if s.gvr == sv.gvr {
			return s
		}
	}
	return res.hub
}

// toHub turns an object of this version into one of the hub version.
func (sv *served) toHub(obj kinds.Object) (kinds.Object, error) {
	if sv.version.ToHub == nil {
		return obj, nil
	}
	out, err := sv.version.ToHub(obj)
	if err == nil {
		out.GetObjectKind().SetGroupVersionKind(sv.hub().gvk)
	}
	return out, err
}

func (sv *served) hub() *served { return sv.resource.hub }

// fromHub turns an object of the hub version into one of this version. The
// result may be the very same object.
func (sv *served) fromHub(obj kinds.Object) (kinds.Object, error) {
	if sv.version.FromHub == nil {
		return obj, nil
	}
	out, err := sv.version.FromHub(obj)
	if err == nil {
		out.GetObjectKind().SetGroupVersionKind(sv.gvk)
	}
	return out, err
}

// key is where an object lies in the store.
func (res *resource) key(namespace, name string) string { return res.kind.Key(namespace, name) }

// names finds namespace and name of what lies at key.
func (res *resource) names(key string) (namespace, name string) {
	rest := key[len(res.kind.StoragePrefix):]
	if !res.namespaced {
		return "", rest
	}
	namespace, name, _ = strings.Cut(rest, "/")
	return namespace, name
}

// protoMessage is what the generated types of k8s.io/api have.
type protoMessage interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
	Reset()
}

// envelope writes and reads Kubernetes' protobuf envelope: the four magic
// bytes and a runtime.Unknown that names the type of what is in it.
type envelope struct {
	head []byte // all before the length of the message
}

var protoMagic = []byte{'k', '8', 's', 0}

func newEnvelope(apiVersion, kind string) *envelope {
	tm := appendProtoString(nil, 1, apiVersion)
	tm = appendProtoString(tm, 2, kind)
	head := append([]byte{}, protoMagic...)
	head = appendProtoBytes(head, 1, tm)
	head = append(head, 2<<3|2)
	return &envelope{head: head}
}

func appendProtoString(b []byte, field int, s string) []byte {
	b = append(b, byte(field<<3|2))
	b = appendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendProtoBytes(b []byte, field int, s []byte) []byte {
	b = append(b, byte(field<<3|2))
	b = appendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendUvarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func uvarintLen(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}

// open finds the message in what encode made. Not ok: it was made otherwise.
func (e *envelope) open(data []byte) (raw []byte, ok bool) {
	if !bytes.HasPrefix(data, e.head) {
		return nil, false
	}
	data = data[len(e.head):]
	size, n := binary.Uvarint(data)
	if n <= 0 || size > uint64(len(data)-n) {
		return nil, false
	}
	end := n + int(size)
	return data[n:end:end], bytes.Equal(data[end:], protoTail)
}

// protoTail are the empty contentEncoding and contentType that Kubernetes
// writes.
var protoTail = []byte{3<<3 | 2, 0, 4<<3 | 2, 0}

// encode returns the message in its envelope, in one allocation.
func (e *envelope) encode(m protoMessage) ([]byte, error) {
	size := m.Size()
	total := len(e.head) + uvarintLen(uint64(size)) + size + len(protoTail)
	out := make([]byte, total)
	n := copy(out, e.head)
	n = len(appendUvarint(out[:n], uint64(size)))
	if _, err := m.MarshalToSizedBuffer(out[n : n+size]); err != nil {
		return nil, err
	}
	copy(out[n+size:], protoTail)
	return out, nil
}
