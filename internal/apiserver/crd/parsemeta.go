package crd

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// parseMeta reads metadata as the library does, without reflection. Like
// parser it gives up on all that is unusual: the library then says what is
// wrong. What it has put into m by then is of no use.
func parseMeta(data []byte, m *metav1.ObjectMeta) bool {
	p := parser{data: data}
	p.space()
	ok := p.members(func(key []byte) (ok bool) {
		switch string(key) {
		case "name":
			return p.once(&m.Name)
		case "generateName":
			return p.once(&m.GenerateName)
		case "namespace":
			return p.once(&m.Namespace)
		case "selfLink":
			return p.once(&m.SelfLink)
		case "uid":
			return p.once((*string)(&m.UID))
		case "resourceVersion":
			return p.once(&m.ResourceVersion)
		case "generation":
			was := m.Generation
			m.Generation, ok = p.integer()
			return ok && was == 0 && m.Generation != 0
		case "creationTimestamp":
			return m.CreationTimestamp.IsZero() && p.time(&m.CreationTimestamp) && !m.CreationTimestamp.IsZero()
		case "deletionTimestamp":
			m.DeletionTimestamp, ok = p.newTime(m.DeletionTimestamp)
		case "deletionGracePeriodSeconds":
			n, whole := p.integer()
			ok = whole && m.DeletionGracePeriodSeconds == nil
			m.DeletionGracePeriodSeconds = &n
		case "labels":
			m.Labels, ok = p.texts(m.Labels)
		case "annotations":
			m.Annotations, ok = p.texts(m.Annotations)
		case "finalizers":
			if m.Finalizers != nil {
				return false
			}
			m.Finalizers = []string{}
			return p.each(func() bool {
				s, ok := p.text(nil)
				m.Finalizers = append(m.Finalizers, s)
				return ok
			})
		case "ownerReferences":
			if m.OwnerReferences != nil {
				return false
			}
			m.OwnerReferences = []metav1.OwnerReference{}
			return p.each(func() bool {
				m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{})
				return p.owner(&m.OwnerReferences[len(m.OwnerReferences)-1])
			})
		case "managedFields":
			if m.ManagedFields != nil {
				return false
			}
			m.ManagedFields = []metav1.ManagedFieldsEntry{}
			return p.each(func() bool {
				m.ManagedFields = append(m.ManagedFields, metav1.ManagedFieldsEntry{})
				return p.managed(&m.ManagedFields[len(m.ManagedFields)-1])
			})
		}
		return ok
	})
	p.space()
	return ok && p.at == len(p.data)
}

func (p *parser) owner(o *metav1.OwnerReference) bool {
	return p.members(func(key []byte) (ok bool) {
		switch string(key) {
		case "apiVersion":
			return p.once(&o.APIVersion)
		case "kind":
			return p.once(&o.Kind)
		case "name":
			return p.once(&o.Name)
		case "uid":
			return p.once((*string)(&o.UID))
		case "controller":
			o.Controller, ok = p.truth(o.Controller)
		case "blockOwnerDeletion":
			o.BlockOwnerDeletion, ok = p.truth(o.BlockOwnerDeletion)
		}
		return ok
	})
}

func (p *parser) managed(e *metav1.ManagedFieldsEntry) bool {
	return p.members(func(key []byte) (ok bool) {
		switch string(key) {
		case "manager":
			return p.once(&e.Manager)
		case "operation":
			return p.once((*string)(&e.Operation))
		case "apiVersion":
			return p.once(&e.APIVersion)
		case "fieldsType":
			return p.once(&e.FieldsType)
		case "subresource":
			return p.once(&e.Subresource)
		case "time":
			e.Time, ok = p.newTime(e.Time)
		case "fieldsV1":
			start := p.at
			if e.FieldsV1 != nil || p.next() != '{' || !p.fields(0) {
				return false
			}
			e.FieldsV1 = &metav1.FieldsV1{}
			e.FieldsV1.SetRawBytes(append([]byte(nil), p.data[start:p.at]...))
			return true
		}
		return ok
	})
}

// fields skips a set of fields: objects within objects.
func (p *parser) fields(depth int) bool {
	return depth <= maxDepth && p.next() == '{' && p.members(func([]byte) bool { return p.fields(depth + 1) })
}

// members calls f for each member of an object, with the parser at its value.
// The key is as it is written, with quotes and backslashes escaped.
func (p *parser) members(f func(key []byte) bool) bool {
	if p.next() != '{' {
		return false
	}
	p.at++
	if p.space(); p.next() == '}' {
		p.at++
		return true
	}
	for {
		end := text(p.data, p.at)
		if end < 0 {
			return false
		}
		key := p.data[p.at+1 : end-1]
		for i := 0; i < len(key); i++ {
			switch c := key[i]; {
			case c < ' ' || c >= 0x80:
				return false
			case c == '\\':
				if i++; key[i] != '"' && key[i] != '\\' {
					return false
				}
			}
		}
		p.at = end
		if p.space(); p.next() != ':' {
			return false
		}
		p.at++
		p.space()
		if !f(key) {
			return false
		}
		if more, ok := p.after('}'); !more {
			return ok
		}
	}
}

// each calls f for each item of a list, with the parser at it.
func (p *parser) each(f func() bool) bool {
	if p.next() != '[' {
		return false
	}
	p.at++
	if p.space(); p.next() == ']' {
		p.at++
		return true
	}
	for {
		if !f() {
			return false
		}
		if more, ok := p.after(']'); !more {
			return ok
		}
	}
}

// once reads a string into what is empty yet, and not thereafter.
func (p *parser) once(into *string) (ok bool) {
	if *into != "" {
		return false
	}
	*into, ok = p.text(nil)
	return ok && *into != ""
}

func (p *parser) integer() (int64, bool) {
	if c := p.next(); c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	v, ok := p.number()
	n, whole := v.(int64)
	return n, ok && whole
}

func (p *parser) truth(was *bool) (*bool, bool) {
	v := p.next() == 't'
	return &v, was == nil && (v && p.word("true") || !v && p.word("false"))
}

func (p *parser) time(into *metav1.Time) bool {
	end := text(p.data, p.at)
	if end < 0 {
		return false
	}
	t, err := time.Parse(time.RFC3339, string(p.data[p.at+1:end-1]))
	p.at = end
	into.Time = t.Local()
	return err == nil
}

func (p *parser) newTime(was *metav1.Time) (*metav1.Time, bool) {
	t := &metav1.Time{}
	return t, was == nil && p.time(t)
}

// texts reads a map of strings.
func (p *parser) texts(was map[string]string) (map[string]string, bool) {
	if was != nil {
		return nil, false
	}
	out := map[string]string{}
	return out, p.members(func(key []byte) bool {
		for _, c := range key {
			if c == '\\' {
				return false
			}
		}
		if _, twice := out[string(key)]; twice {
			return false
		}
		v, ok := p.text(nil)
		out[string(key)] = v
		return ok
	})
}
