package apply

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// maxUpdaters is how many managers that update are told apart.
const maxUpdaters = 10

// Track brings the managed fields of obj, which replaces live, up to date.
// Both are of the hub version; live is nil for a new object. Changes obj.
//
// Who sets a field comes to own it, and whoever owned it no longer does; a
// field that goes is nobody's. Setting a field to what it is changes nothing.
func (k *Kind) Track(live, obj kinds.Object, by Request) {
	if by.Manager == "" {
		by.Manager = "unknown"
	}
	if !k.trackPlain(live, obj, by) {
		k.trackAny(live, obj, by)
	}
}

// trackPlain tracks what nearly every write is: of a Go type, in the version of
// all its managers, by a client that leaves the managers alone. False: it is
// something else, and obj is as it was.
func (k *Kind) trackPlain(live, obj kinds.Object, by Request) bool {
	given := obj.GetManagedFields()
	var had []metav1.ManagedFieldsEntry
	if live != nil {
		had = live.GetManagedFields()
	}
	switch {
	case given != nil && (len(given) == 0 || len(given) == 1 && given[0] == metav1.ManagedFieldsEntry{}):
		if by.Subresource == "" {
			had = nil // the client starts afresh
		}
	case len(given) > 0 && by.Subresource == "" && !alike(given, had):
		return false
	}
	if live != nil && len(had) == 0 {
		obj.SetManagedFields(nil) // tracked from its creation or from an apply on, not from now
		return true
	}
	version := k.kind.Versions[by.Version].GroupVersion.String()
	for i := range had {
		if had[i].APIVersion != version || had[i].FieldsType != fieldsType {
			return false
		}
	}
	d, ok := k.changes(live, obj, by)
	if !ok {
		return false
	}
	if len(d.set) == 0 && len(d.gone) == 0 {
		obj.SetManagedFields(had)
		return true
	}
	list, ok := k.managed(had, d, by, version)
	if ok {
		obj.SetManagedFields(list)
	}
	return ok
}

// changes compares two objects as by.Version has them.
func (k *Kind) changes(live, obj kinds.Object, by Request) (diff, bool) {
	v := &k.kind.Versions[by.Version]
	if v.FromHub != nil {
		var err error
		if obj, err = v.FromHub(obj); err != nil {
			return diff{}, false
		}
		if live != nil {
			if live, err = v.FromHub(live); err != nil {
				return diff{}, false
			}
		}
	}
	p := k.plan(view{by.Version, by.Subresource})
	if k.custom {
		return p.changes(live, obj)
	}
	b := reflect.ValueOf(obj).Elem()
	a := p.node.zero
	if live != nil {
		a = reflect.ValueOf(live).Elem()
	}
	if a.Type() != b.Type() || b.Type() != p.node.typ {
		return diff{}, false
	}
	d := compare(p.node, a, b)
	if d.doubled {
		return diff{}, false
	}
	d.set, d.gone = p.mine(d.set), p.mine(d.gone)
	return d, true
}

// changes compares two objects of a custom kind.
func (p *plan) changes(live, obj kinds.Object) (diff, bool) {
	b, ok := looselyOf(obj)
	a := custom{meta: p.node.zero}
	if ok && live != nil {
		a, ok = looselyOf(live)
	}
	if !ok {
		return diff{}, false
	}
	var d diff
	d.field(p.node, "f:metadata", side{Value: a.meta, there: true}, side{Value: b.meta, there: true}, &d.set, &d.gone)
	d.body(p.loose, a.body, b.body, &d.set, &d.gone)
	if d.doubled {
		return diff{}, false
	}
	order(d.set)
	order(d.gone)
	d.set, d.gone = p.mine(d.set), p.mine(d.gone)
	return d, true
}

// custom are the parts of a custom object.
type custom struct {
	meta reflect.Value
	body map[string]any
}

func looselyOf(obj kinds.Object) (custom, bool) {
	d, ok := obj.(kinds.Dynamic)
	if !ok {
		return custom{}, false
	}
	a, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return custom{}, false
	}
	meta, ok := a.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return custom{}, false
	}
	return custom{reflect.ValueOf(meta).Elem(), d.Body()}, true
}

// managed makes the managers after a write of those before it.
func (k *Kind) managed(had []metav1.ManagedFieldsEntry, d diff, by Request, version string) ([]metav1.ManagedFieldsEntry, bool) {
	t := k.shared.table
	out := make([]metav1.ManagedFieldsEntry, 0, len(had)+1)
	var mine *fields
	updaters := 0
	for i := range had {
		e := had[i]
		f, err := t.parsed(e.FieldsV1)
		if err != nil {
			return nil, false
		}
		self := e.Manager == by.Manager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == by.Subresource
		kids, less := minus(f.kids, d.gone)
		if self && len(d.set) > 0 {
			if mine = f; less || !contains(f.kids, d.set) {
				mine = t.written(union(kids, d.set))
			}
			continue
		}
		kids, fewer := minus(kids, d.set)
		if less || fewer {
			if len(kids) == 0 {
				continue
			}
			e.FieldsV1 = t.written(kids).raw
		}
		if e.Operation == metav1.ManagedFieldsOperationUpdate {
			updaters++
		}
		out = append(out, e)
	}
	if len(d.set) > 0 {
		if mine == nil {
			mine = t.written(d.set)
		}
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		out = append(out, metav1.ManagedFieldsEntry{
			Manager: t.name(by.Manager), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: t.name(version),
			Time: &now, FieldsType: fieldsType, FieldsV1: mine.raw, Subresource: by.Subresource,
		})
		updaters++
	}
	if updaters > maxUpdaters {
		return nil, false
	}
	slices.SortStableFunc(out, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(strings.Compare(string(a.Operation), string(b.Operation)), cmp.Compare(seconds(a.Time), seconds(b.Time)),
			strings.Compare(a.Manager, b.Manager), strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(a.Subresource, b.Subresource))
	})
	if len(out) == 0 {
		out = nil
	}
	return out, true
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

// alike tells whether two lists of managers are the same.
func alike(a, b []metav1.ManagedFieldsEntry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Time.Equal(b[i].Time) || !sameManager(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// OnlyTimesDiffer tells whether two lists of managers are the same but for the
// times, which are not.
func OnlyTimesDiffer(a, b []metav1.ManagedFieldsEntry) bool {
	if len(a) != len(b) {
		return false
	}
	moved := false
	for i := range a {
		if !sameManager(&a[i], &b[i]) {
			return false
		}
		moved = moved || !a[i].Time.Equal(b[i].Time)
	}
	return moved
}

// sameManager compares all but the time.
func sameManager(p, q *metav1.ManagedFieldsEntry) bool {
	return p.Manager == q.Manager && p.Operation == q.Operation && p.APIVersion == q.APIVersion && p.Subresource == q.Subresource &&
		p.FieldsType == q.FieldsType && (p.FieldsV1 == q.FieldsV1 || bytes.Equal(p.FieldsV1.GetRawBytes(), q.FieldsV1.GetRawBytes()))
}

// trackAny tracks any write, by the merge library.
func (k *Kind) trackAny(live, obj kinds.Object, by Request) {
	var had []metav1.ManagedFieldsEntry
	from := live
	if live == nil {
		from = k.kind.HubVersion().New()
		from.GetObjectKind().SetGroupVersionKind(k.gvk(k.kind.Hub))
	} else {
		had = live.GetManagedFields()
	}
	m, err := k.manager(view{by.Version, by.Subresource})
	if err == nil {
		err = guarded(func() error {
			_, err := m.Update(from, obj, by.Manager)
			return err
		})
	}
	if err != nil {
		obj.SetManagedFields(had)
	}
}

// guarded calls the library, which panics at a value that cannot write itself.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("apply: %v", p)
		}
	}()
	return f()
}
