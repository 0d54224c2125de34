// Package intern reads objects from protobuf so that those of one shape share
// in memory what they have in common. The pods of a ReplicaSet differ by name,
// node and status; their containers, volumes, labels and owner are the same
// bytes in the store, and become the same memory here. Reading such a pod
// takes a third of the time as well: what is known already is not read again.
//
//	metadata --+-- name, uid, times, managers ---- read for each object
//	           +-- labels, annotations, owners --> by their bytes --+
//	spec ------+-- node name, host name ---------- read for each    +--> read once
//	(of a pod) +-- volumes ----------------------> by their bytes --+
//	           +-- affinity ---------------------> by their bytes --+
//	           +-- the rest ---------------------> by their bytes --+
//	status ------------------------------------- read for each; its words shared
//
// Use: Unmarshal in place of the object's own. What it reads must never change:
// a map or a slice may be part of many objects. Nor may the bytes that it was
// read from: the sets of managed fields are parts of them.
//
// What is shared is held by a table of bounded size. What leaves the table is
// shared no further; those that have it keep it.
//
// Concurrency: any number of goroutines.
//
// Failure: what is no message in the order in which objects are written is read
// as the object itself reads it, and shares nothing.
//
// Testing: the objects' own Unmarshal is the oracle, for all kinds and for
// bytes that are none.
package intern

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Message is what the generated types of k8s.io/api have.
type Message interface {
	Size() int
	Unmarshal([]byte) error
}

// Table is what is shared. The zero value is not ready: see New.
type Table struct {
	metas *parts[metav1.ObjectMeta, *metav1.ObjectMeta]
	specs *parts[corev1.PodSpec, *corev1.PodSpec]
	words *words
}

// New returns an empty table.
func New() *Table {
	return &Table{metas: newParts[metav1.ObjectMeta](), specs: newParts[corev1.PodSpec](), words: newWords()}
}

// The numbers of fields, as k8s.io's .proto files have them.
const (
	objectMetadata, podSpec = 1, 2
	metaManagedFields       = 17
	entryFields, fieldsRaw  = 7, 1
	specVolumes             = 1
	specAffinity            = 18
	statusConditions        = 2
)

// ownOfMeta are the fields that no two objects have in common.
var ownOfMeta = fieldSet(1 /* name */, 4 /* selfLink */, 5 /* uid */, 6 /* resourceVersion */, 8, 9, 10 /* created, deleted, grace */, metaManagedFields)

// ownOfSpec are the fields by which the pods of a workload differ.
var ownOfSpec = fieldSet(10 /* nodeName */, 16 /* hostname */)

// Unmarshal reads raw into obj, which is new.
func (t *Table) Unmarshal(obj Message, raw []byte) error {
	holder, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return unmarshal(obj, raw)
	}
	meta, ok := holder.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return unmarshal(obj, raw)
	}
	pod, _ := obj.(*corev1.Pod)
	metadata, spec, rest, ok := outline(raw, pod != nil)
	if !ok {
		return unmarshal(obj, raw)
	}
	if ok, err := t.metadata(meta, metadata); err != nil || !ok {
		if err == nil {
			err = unmarshal(obj, raw)
		}
		return err
	}
	if pod == nil {
		return unmarshal(obj, rest)
	}
	if ok, err := t.spec(&pod.Spec, spec); err != nil || !ok {
		if err == nil {
			*pod = corev1.Pod{}
			err = unmarshal(obj, raw)
		}
		return err
	}
	return t.status(pod, rest)
}

// unmarshal also makes the quantities in obj write their text down inside
// themselves, as they do when they are first asked for it: no thing to happen
// once readers share them.
func unmarshal(obj Message, raw []byte) error {
	if err := obj.Unmarshal(raw); err != nil {
		return err
	}
	obj.Size()
	return nil
}

// outline finds metadata and, of a pod, its spec at the beginning of a message,
// and what is behind them. Not ok: they are not there, or more than once.
func outline(raw []byte, pod bool) (metadata, spec, rest []byte, ok bool) {
	f, rest, ok := next(raw)
	if !ok || f.number != objectMetadata || f.body == nil {
		return nil, nil, nil, false
	}
	metadata = f.body
	if pod {
		if f, rest, ok = next(rest); !ok || f.number != podSpec || f.body == nil {
			return nil, nil, nil, false
		}
		spec = f.body
	}
	for more := rest; len(more) > 0; {
		if f, more, ok = next(more); !ok || f.number == objectMetadata || pod && f.number == podSpec {
			return nil, nil, nil, false
		}
	}
	return metadata, spec, rest, true
}

// metadata reads into m. Not ok: it is no message, and m is as it was.
func (t *Table) metadata(m *metav1.ObjectMeta, raw []byte) (ok bool, err error) {
	b := buffersPool.Get().(*buffers)
	defer b.free()
	managers := 0
	for rest := raw; len(rest) > 0; {
		var f field
		if f, rest, ok = next(rest); !ok {
			return false, nil
		}
		if !ownOfMeta.has(f.number) {
			b.common = append(b.common, f.whole...)
			continue
		}
		if f.number == metaManagedFields && f.body != nil {
			managers++
			continue
		}
		b.own = append(b.own, f.whole...)
	}
	shared, err := t.metas.get(b.common)
	if err != nil {
		return false, err
	}
	*m = *shared
	if managers > 0 {
		if m.ManagedFields, err = t.managers(raw, managers); err != nil {
			return false, err
		}
	}
	return true, m.Unmarshal(b.own)
}

// managers reads the managed fields in metadata, of which there are n.
func (t *Table) managers(metadata []byte, n int) ([]metav1.ManagedFieldsEntry, error) {
	out := make([]metav1.ManagedFieldsEntry, n)
	b := buffersPool.Get().(*buffers)
	defer b.free()
	for e := out; len(e) > 0; {
		f, rest, _ := next(metadata) // metadata saw that it is one
		if metadata = rest; f.number != metaManagedFields {
			continue
		}
		if err := t.manager(&e[0], f.body, b); err != nil {
			return nil, err
		}
		e = e[1:]
	}
	return out, nil
}

// manager reads one entry. The set of fields stays where it is in raw, which is
// as immutable as what is read of it: it is most of what an object has for its
// own.
func (t *Table) manager(e *metav1.ManagedFieldsEntry, raw []byte, b *buffers) error {
	var set []byte
	b.own = b.own[:0]
	for rest := raw; len(rest) > 0; {
		f, more, ok := next(rest)
		if !ok {
			return e.Unmarshal(raw)
		}
		if rest = more; f.number != entryFields {
			b.own = append(b.own, f.whole...)
			continue
		}
		in, behind, ok := next(f.body)
		if !ok || set != nil || len(behind) > 0 || in.number != fieldsRaw || len(in.body) == 0 {
			return e.Unmarshal(raw)
		}
		set = in.body
	}
	if set != nil {
		e.FieldsV1 = &metav1.FieldsV1{Raw: set} // SetRawBytes would copy
	}
	if err := e.Unmarshal(b.own); err != nil {
		return err
	}
	share(t.words, &e.Manager)
	share(t.words, &e.Operation)
	share(t.words, &e.APIVersion)
	share(t.words, &e.FieldsType)
	share(t.words, &e.Subresource)
	return nil
}

// spec reads into s. Not ok: it is no message, and s is as it was.
func (t *Table) spec(s *corev1.PodSpec, raw []byte) (ok bool, err error) {
	b := buffersPool.Get().(*buffers)
	defer b.free()
	for rest := raw; len(rest) > 0; {
		var f field
		if f, rest, ok = next(rest); !ok {
			return false, nil
		}
		switch {
		case ownOfSpec.has(f.number):
			b.own = append(b.own, f.whole...)
		case f.number == specVolumes:
			b.volumes = append(b.volumes, f.whole...)
		case f.number == specAffinity:
			b.affinity = append(b.affinity, f.whole...)
		default:
			b.common = append(b.common, f.whole...)
		}
	}
	shared, err := t.specs.get(b.common)
	if err != nil {
		return false, err
	}
	*s = *shared
	if len(b.volumes) > 0 {
		if shared, err = t.specs.get(b.volumes); err != nil {
			return false, err
		}
		s.Volumes = shared.Volumes
	}
	if len(b.affinity) > 0 {
		if shared, err = t.specs.get(b.affinity); err != nil {
			return false, err
		}
		s.Affinity = shared.Affinity
	}
	return true, s.Unmarshal(b.own)
}

// status reads what is behind a pod's spec.
func (t *Table) status(pod *corev1.Pod, rest []byte) error {
	for more := rest; len(more) > 0; {
		f, behind, _ := next(more) // outline saw that they are fields
		more = behind
		n := 0
		for in := f.body; len(in) > 0; {
			g, behind, ok := next(in)
			if !ok {
				break // Unmarshal says what is wrong
			}
			if in = behind; g.number == statusConditions {
				n++
			}
		}
		if n > 0 && pod.Status.Conditions == nil {
			pod.Status.Conditions = make([]corev1.PodCondition, 0, n)
		}
	}
	if err := pod.Unmarshal(rest); err != nil {
		return err
	}
	pod.Status.Size() // see unmarshal
	t.shareWords(&pod.Status)
	return nil
}

func (t *Table) shareWords(s *corev1.PodStatus) {
	share(t.words, &s.Phase)
	share(t.words, &s.QOSClass)
	share(t.words, &s.HostIP)
	for i := range s.HostIPs {
		share(t.words, &s.HostIPs[i].IP)
	}
	if len(s.PodIPs) > 0 && s.PodIPs[0].IP == s.PodIP {
		s.PodIPs[0].IP = s.PodIP
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		share(t.words, &c.Type)
		share(t.words, &c.Status)
		share(t.words, &c.Reason)
	}
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			share(t.words, &c.Name)
			share(t.words, &c.Image)
			share(t.words, &c.ImageID)
		}
	}
}
