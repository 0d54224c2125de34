package apply

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Bounds of what is shared: how many sets and names, and how long a set may be.
const (
	maxShared = 4096
	maxLength = 8 << 10
)

// table keeps equal sets and names once: thousands of objects of one shape are
// managed alike. When it is full it starts afresh.
type table struct {
	mu    sync.RWMutex
	sets  map[string]*fields // guarded by mu; by their JSON
	names map[string]string  // guarded by mu

	// seen holds half of the hash of the set that came last, at a place that
	// the other half says.
	seed maphash.Seed
	seen [doors]atomic.Uint32
}

const doors = 8192

// fields is a set in both its forms. Neither is ever changed.
type fields struct {
	raw  *metav1.FieldsV1
	kids []set
}

func newTable() *table {
	return &table{sets: map[string]*fields{}, names: map[string]string{}, seed: maphash.MakeSeed()}
}

// parsed is the set that raw writes.
func (t *table) parsed(raw *metav1.FieldsV1) (*fields, error) {
	data := raw.GetRawBytes()
	t.mu.RLock()
	f := t.sets[string(data)]
	t.mu.RUnlock()
	if f != nil {
		return f, nil
	}
	if len(data) == 0 {
		return &fields{raw: raw}, nil
	}
	kids, err := parse(data)
	if err != nil {
		return nil, err
	}
	own := &metav1.FieldsV1{} // raw may be a part of an object's bytes, which the table shall not hold
	own.SetRawBytes(data)
	return t.keep(&fields{raw: own, kids: kids}), nil
}

// shared is the copy of raw that others have, or raw. A set that came before
// is kept from then on: most of those that are one object's alone never are.
func (t *table) shared(raw *metav1.FieldsV1) *metav1.FieldsV1 {
	data := raw.GetRawBytes()
	t.mu.RLock()
	f := t.sets[string(data)]
	t.mu.RUnlock()
	if f != nil {
		return f.raw
	}
	if h := maphash.Bytes(t.seed, data); t.seen[h%doors].Swap(uint32(h>>32)|1) == uint32(h>>32)|1 {
		if f, err := t.parsed(raw); err == nil {
			return f.raw
		}
	}
	return raw
}

// written is a set with its JSON.
func (t *table) written(kids []set) *fields {
	f := &fields{raw: &metav1.FieldsV1{}, kids: kids}
	data := encode(kids)
	t.mu.RLock()
	had := t.sets[string(data)]
	t.mu.RUnlock()
	if had != nil {
		return had
	}
	f.raw.SetRawBytes(data)
	return t.keep(f)
}

func (t *table) keep(f *fields) *fields {
	data := f.raw.GetRawBytes()
	if len(data) > maxLength {
		return f
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if had := t.sets[string(data)]; had != nil {
		return had
	}
	if len(t.sets) >= maxShared {
		clear(t.sets)
	}
	t.sets[string(data)] = f
	return f
}

func (t *table) name(s string) string {
	t.mu.RLock()
	had, ok := t.names[s]
	t.mu.RUnlock()
	if ok {
		return had
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.names) >= maxShared {
		clear(t.names)
	}
	t.names[s] = s
	return s
}

// Share makes the managers of an object that was read from the store share
// what they have in common with others. Changes obj, which nobody else may
// have yet.
func (m *Managers) Share(obj kinds.Object) {
	list := obj.GetManagedFields()
	for i := range list {
		e := &list[i]
		e.Manager, e.APIVersion, e.Subresource = m.table.name(e.Manager), m.table.name(e.APIVersion), m.table.name(e.Subresource)
		switch e.Operation {
		case metav1.ManagedFieldsOperationApply:
			e.Operation = metav1.ManagedFieldsOperationApply
		case metav1.ManagedFieldsOperationUpdate:
			e.Operation = metav1.ManagedFieldsOperationUpdate
		}
		if e.FieldsType == fieldsType {
			e.FieldsType = fieldsType
		}
		if e.FieldsV1 == nil {
			continue
		}
		e.FieldsV1 = m.table.shared(e.FieldsV1)
	}
}

const fieldsType = "FieldsV1"
