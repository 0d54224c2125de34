package crd

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// appendMeta writes what encoding/json would of metadata, without reflection.
func appendMeta(b []byte, m *metav1.ObjectMeta) ([]byte, error) {
	w := fieldWriter{b: append(b, '{')}
	w.text("name", m.Name)
	w.text("generateName", m.GenerateName)
	w.text("namespace", m.Namespace)
	w.text("selfLink", m.SelfLink)
	w.text("uid", string(m.UID))
	w.text("resourceVersion", m.ResourceVersion)
	if m.Generation != 0 {
		w.key("generation")
		w.b = strconv.AppendInt(w.b, m.Generation, 10)
	}
	if !m.CreationTimestamp.IsZero() {
		w.time("creationTimestamp", &m.CreationTimestamp)
	}
	if m.DeletionTimestamp != nil {
		w.time("deletionTimestamp", m.DeletionTimestamp)
	}
	if m.DeletionGracePeriodSeconds != nil {
		w.key("deletionGracePeriodSeconds")
		w.b = strconv.AppendInt(w.b, *m.DeletionGracePeriodSeconds, 10)
	}
	w.texts("labels", m.Labels)
	w.texts("annotations", m.Annotations)
	if err := cmp.Or(
		list(&w, "ownerReferences", m.OwnerReferences, appendOwner),
		list(&w, "finalizers", m.Finalizers, func(b []byte, f *string) ([]byte, error) { return appendString(b, *f), nil }),
		list(&w, "managedFields", m.ManagedFields, appendManaged),
	); err != nil {
		return nil, err
	}
	return append(w.b, '}'), nil
}

// list writes a member that holds a list, each item as appendItem does.
func list[T any](w *fieldWriter, name string, items []T, appendItem func([]byte, *T) ([]byte, error)) (err error) {
	if len(items) == 0 {
		return nil
	}
	w.key(name)
	w.b = append(w.b, '[')
	for i := range items {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		if w.b, err = appendItem(w.b, &items[i]); err != nil {
			return err
		}
	}
	w.b = append(w.b, ']')
	return nil
}

func appendOwner(b []byte, o *metav1.OwnerReference) ([]byte, error) {
	b = appendString(append(b, `{"apiVersion":`...), o.APIVersion)
	b = appendString(append(b, `,"kind":`...), o.Kind)
	b = appendString(append(b, `,"name":`...), o.Name)
	b = appendString(append(b, `,"uid":`...), string(o.UID))
	if o.Controller != nil {
		b = strconv.AppendBool(append(b, `,"controller":`...), *o.Controller)
	}
	if o.BlockOwnerDeletion != nil {
		b = strconv.AppendBool(append(b, `,"blockOwnerDeletion":`...), *o.BlockOwnerDeletion)
	}
	return append(b, '}'), nil
}

func appendManaged(b []byte, e *metav1.ManagedFieldsEntry) ([]byte, error) {
	w := fieldWriter{b: append(b, '{')}
	w.text("manager", e.Manager)
	w.text("operation", string(e.Operation))
	w.text("apiVersion", e.APIVersion)
	if e.Time != nil {
		w.time("time", e.Time)
	}
	w.text("fieldsType", e.FieldsType)
	if e.FieldsV1 != nil {
		w.key("fieldsV1")
		if raw := e.FieldsV1.GetRawBytes(); compact(raw) {
			w.b = append(w.b, raw...)
		} else {
			data, err := json.Marshal(e.FieldsV1)
			if err != nil {
				return nil, err
			}
			w.b = append(w.b, data...)
		}
	}
	w.text("subresource", e.Subresource)
	return append(w.b, '}'), nil
}

// compact tells that raw JSON is written as it is: nothing in it is white space
// or escaped.
func compact(raw []byte) bool {
	for _, c := range raw {
		if c <= ' ' || c >= 0x7f || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return len(raw) > 0
}

// fieldWriter writes those members of an object that are not empty.
type fieldWriter struct {
	b []byte
}

func (w *fieldWriter) key(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *fieldWriter) text(name, value string) {
	if value != "" {
		w.key(name)
		w.b = appendString(w.b, value)
	}
}

func (w *fieldWriter) texts(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.key(name)
	w.b = append(w.b, '{')
	var few [16]string
	for i, key := range sortedKeys(m, few[:0]) {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(appendString(w.b, key), ':')
		w.b = appendString(w.b, m[key])
	}
	w.b = append(w.b, '}')
}

func (w *fieldWriter) time(name string, t *metav1.Time) {
	w.key(name)
	if t.IsZero() {
		w.b = append(w.b, "null"...)
		return
	}
	w.b = append(w.b, '"')
	w.b = t.UTC().AppendFormat(w.b, time.RFC3339)
	w.b = append(w.b, '"')
}
