package crd

import (
	"slices"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settle implements kinds.Dynamic.
func (o *Object) Settle() bool {
	if o.version == nil {
		return false
	}
	sh, err := o.version.shape()
	if err != nil || sh.embedded {
		return false
	}
	for key, v := range o.Fields {
		if !utf8.ValidString(key) || !lasting(v, 0) {
			return false
		}
	}
	if f := sh.form; f != nil && !o.version.preserve {
		if !f.clean(o.Fields, false) || !f.sound(o.Fields) || !f.filled(o.Fields) {
			return false
		}
	}
	return settleMeta(&o.ObjectMeta)
}

// settleMeta makes metadata what it is once written and read again. What lies
// in lists and behind pointers may be shared with other objects: it is copied
// before it is changed.
func settleMeta(m *metav1.ObjectMeta) bool {
	for _, s := range [...]string{m.Name, m.GenerateName, m.Namespace, m.SelfLink, string(m.UID), m.ResourceVersion} {
		if !utf8.ValidString(s) {
			return false
		}
	}
	if !valid(m.Labels) || !valid(m.Annotations) || !m.CreationTimestamp.IsZero() && !whole(&m.CreationTimestamp) || !whole(m.DeletionTimestamp) {
		return false
	}
	if len(m.Labels) == 0 {
		m.Labels = nil
	}
	if len(m.Annotations) == 0 {
		m.Annotations = nil
	}
	if len(m.Finalizers) == 0 {
		m.Finalizers = nil
	}
	if len(m.OwnerReferences) == 0 {
		m.OwnerReferences = nil
	}
	if len(m.ManagedFields) == 0 {
		m.ManagedFields = nil
	}
	for _, f := range m.Finalizers {
		if !utf8.ValidString(f) {
			return false
		}
	}
	for i := range m.OwnerReferences {
		o := &m.OwnerReferences[i]
		for _, s := range [...]string{o.APIVersion, o.Kind, o.Name, string(o.UID)} {
			if !utf8.ValidString(s) {
				return false
			}
		}
	}
	for i := range m.ManagedFields {
		e := &m.ManagedFields[i]
		for _, s := range [...]string{e.Manager, string(e.Operation), e.APIVersion, e.FieldsType, e.Subresource} {
			if !utf8.ValidString(s) {
				return false
			}
		}
		if !whole(e.Time) || e.FieldsV1 != nil && !compact(e.FieldsV1.GetRawBytes()) {
			return false
		}
	}
	m.ManagedFields = slices.Clone(m.ManagedFields)
	return true
}

func valid(m map[string]string) bool {
	for k, v := range m {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return false
		}
	}
	return true
}

// whole tells of a time, where there is one, that it is as it is written: in
// seconds.
func whole(t *metav1.Time) bool {
	return t == nil || !t.IsZero() && t.Nanosecond() == 0 && t.Year() > 0 && t.Year() < 10000
}
