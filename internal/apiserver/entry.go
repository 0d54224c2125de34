package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

// entry is what lies beside a record of the store: the decoded object, and
// whatever encodings of it somebody asked for.
type entry struct {
	res  *resource
	obj  kinds.Object // hub version, with type and resourceVersion; never changed
	used atomic.Bool  // since the sweeper last came by
	// looks counts those at obj, with Config.CheckImmutable.
	looks atomic.Uint32

	mu   sync.Mutex
	encs []encoding // guarded by mu
	read bool       // guarded by mu; encs were asked for since the sweeper last came by
}

// form is what of an object is written.
type form uint8

const (
	formObject form = iota
	formMetadata
)

// encoding is an object in one version, medium and form.
type encoding struct {
	version uint8
	medium  medium
	form    form
	data    []byte
}

// readers count who follows a resource, which decides what is kept of a new
// object: with nobody to read it, neither the decoded object nor its JSON.
type readers struct {
	watchers, views atomic.Int32
}

func (r *readers) any() bool {
	return r.watchers.Load() > 0 || r.views.Load() > 0
}

// entryOf is the decoded form of a record that holds a value.
func (s *Server) entryOf(res *resource, rec *store.Record) (*entry, error) {
	e, err := s.peek(res, rec)
	if err == nil && !e.used.Load() {
		e.used.Store(true)
	}
	return e, err
}

// peek is entryOf for those who look once, as a change goes by.
func (s *Server) peek(res *resource, rec *store.Record) (*entry, error) {
	if p := rec.Decoded.Load(); p != nil {
		e := (*p).(*entry)
		if s.cfg.CheckImmutable && e.due() {
			e.check(rec)
		}
		if e.res == res {
			return e, nil
		}
		rec.Decoded.CompareAndSwap(p, nil) // decoded as the kind was before
	}
	obj, err := res.decodeStored(rec.Value)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", rec.Key, err)
	}
	obj.SetResourceVersion(strconv.FormatInt(rec.Revision, 10))
	s.managers.Share(obj)
	e := &entry{res: res, obj: obj}
	var boxed any = e
	if !rec.Decoded.CompareAndSwap(nil, &boxed) {
		if p := rec.Decoded.Load(); p != nil && (*p).(*entry).res == res {
			return (*p).(*entry), nil
		}
	}
	return e, nil
}

// written is the entry of an object that is to be stored as value: what reading
// value back gives, not what the writer held. A writer in this process can hold
// what no encoding carries (nanoseconds, an empty list where none is told from
// nil); readers would see it until the object is next decoded, and not after.
// Reading back costs a hundredth of the write, where an object does not know by
// itself. Kubernetes does the same.
func (s *Server) written(res *resource, obj kinds.Object, value []byte) (*entry, error) {
	resourceVersion := obj.GetResourceVersion()
	if o, ok := obj.(kinds.Settler); ok && o.Settle() {
		s.managers.Share(o)
		return &entry{res: res, obj: o}, nil
	}
	obj, err := res.decodeStored(value)
	if err != nil {
		return nil, fmt.Errorf("read back what is to be stored: %w", err)
	}
	obj.SetResourceVersion(resourceVersion)
	s.managers.Share(obj)
	return &entry{res: res, obj: obj}, nil
}

// lastState is the entry of a deletion: the object as it last was, under the
// revision of the deletion.
func (s *Server) lastState(res *resource, ev store.Event) (*entry, error) {
	if p := ev.Record.Decoded.Load(); p != nil && (*p).(*entry).res == res {
		return (*p).(*entry), nil
	}
	prev, err := s.peek(res, ev.Prev)
	if err != nil {
		return nil, err
	}
	obj := prev.obj.DeepCopyObject().(kinds.Object)
	obj.SetResourceVersion(strconv.FormatInt(ev.Record.Revision, 10))
	e := &entry{res: res, obj: obj}
	var boxed any = e
	if !ev.Record.Decoded.CompareAndSwap(nil, &boxed) {
		if p := ev.Record.Decoded.Load(); p != nil && (*p).(*entry).res == res {
			return (*p).(*entry), nil
		}
	}
	return e, nil
}

// due tells whether a look at the object is one to check it at: the first, the
// second, the fourth and so on. What is changed stays so, and the last check
// comes when the object is replaced (see hub.deliver) or the server stops.
func (e *entry) due() bool {
	n := e.looks.Add(1)
	return n&(n-1) == 0
}

// check panics when the object is no longer what the record says.
func (e *entry) check(rec *store.Record) {
	want := rec.Value
	if want == nil {
		return
	}
	again := e.obj.DeepCopyObject().(kinds.Object)
	got, err := e.res.encodeStored(again)
	if err == nil && !bytes.Equal(got, want) {
		// A writer may hold what is written in two ways (bytes that are empty,
		// or not there): read back, they are the same.
		if was, err := e.res.decodeStored(want); err == nil {
			want, _ = e.res.encodeStored(was)
		}
	}
	if err != nil || !bytes.Equal(got, want) || e.obj.GetResourceVersion() != strconv.FormatInt(rec.Revision, 10) {
		was, _ := e.res.decodeStored(rec.Value)
		a, _ := json.Marshal(was)
		b, _ := json.Marshal(e.obj)
		panic(fmt.Sprintf("apiserver: shared object %s was changed by a reader\nstored: %s\nnow:    %s", rec.Key, a, b))
	}
}

// encode returns the object as it crosses the wire. The bytes are shared.
func (e *entry) encode(sv *served, m medium, f form) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read = true
	if data := e.keptLocked(sv, m, f); data != nil {
		return data, nil
	}
	data, err := e.encodeOnce(sv, m, f)
	if err == nil {
		e.encs = append(e.encs, encoding{uint8(sv.index), m, f, data})
	}
	return data, err
}

// encodePassing is encode for a change that goes by: its frame is shared by
// all who watch, so that the bytes need no second place here.
func (e *entry) encodePassing(sv *served, m medium, f form) ([]byte, error) {
	e.mu.Lock()
	data := e.keptLocked(sv, m, f)
	e.mu.Unlock()
	if data != nil {
		return data, nil
	}
	return e.encodeOnce(sv, m, f)
}

// keptLocked finds an encoding that was made before, or nil.
func (e *entry) keptLocked(sv *served, m medium, f form) []byte {
	for i := range e.encs {
		c := &e.encs[i]
		if c.version == uint8(sv.index) && c.medium == m && c.form == f {
			return c.data
		}
	}
	return nil
}

// age drops the encodings that nobody asked for since the last call: an object
// that loops read all the time need not keep what once crossed the wire.
func (e *entry) age() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.read {
		e.encs = nil
	}
	e.read = false
}

// encodeOnce is encode for bytes that are not kept.
func (e *entry) encodeOnce(sv *served, m medium, f form) ([]byte, error) {
	obj, err := sv.fromHub(e.obj)
	if err != nil {
		return nil, err
	}
	if f == formMetadata {
		return encodeObject(partialMetadata(obj), partialGVK, m)
	}
	switch {
	case m == mediumProto:
		if sv.wire == nil {
			return nil, errNoProto
		}
		return sv.wire.encode(obj.(protoMessage))
	case m == mediumYAML:
		data, err := marshalObject(obj)
		if err != nil {
			return nil, err
		}
		return yaml.JSONToYAML(data)
	case m == mediumCBOR:
		return encodeCBOR(obj)
	}
	return marshalObject(obj)
}

var (
	metaGV         = schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}
	partialGVK     = metaGV.WithKind("PartialObjectMetadata")
	partialListGVK = metaGV.WithKind("PartialObjectMetadataList")
	statusGVK      = schema.GroupVersionKind{Version: "v1", Kind: "Status"}
)

// partialMetadata is the metadata of obj alone. It shares obj's maps.
func partialMetadata(obj kinds.Object) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}}
	if a, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if m, ok := a.GetObjectMeta().(*metav1.ObjectMeta); ok {
			out.ObjectMeta = *m
			return out
		}
	}
	out.Name, out.GenerateName, out.Namespace = obj.GetName(), obj.GetGenerateName(), obj.GetNamespace()
	out.UID, out.ResourceVersion, out.Generation = obj.GetUID(), obj.GetResourceVersion(), obj.GetGeneration()
	out.CreationTimestamp, out.DeletionTimestamp = obj.GetCreationTimestamp(), obj.GetDeletionTimestamp()
	out.DeletionGracePeriodSeconds = obj.GetDeletionGracePeriodSeconds()
	out.Labels, out.Annotations = obj.GetLabels(), obj.GetAnnotations()
	out.OwnerReferences, out.Finalizers = obj.GetOwnerReferences(), obj.GetFinalizers()
	out.ManagedFields = obj.GetManagedFields()
	return out
}
