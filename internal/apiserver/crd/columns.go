package crd

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// columns are the name and what the definition adds; the age when it adds
// nothing.
func columns(added []apiextensionsv1.CustomResourceColumnDefinition) []kinds.Column {
	docs := metav1.ObjectMeta{}.SwaggerDoc()
	out := []kinds.Column{{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: docs["name"]},
		Cell:                  func(obj kinds.Object) any { return obj.GetName() },
	}}
	if len(added) == 0 {
		added = []apiextensionsv1.CustomResourceColumnDefinition{{
			Name: "Age", Type: "date", Description: docs["creationTimestamp"], JSONPath: ".metadata.creationTimestamp",
		}}
	}
	for _, c := range added {
		description := c.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		out = append(out, kinds.Column{
			TableColumnDefinition: metav1.TableColumnDefinition{
				Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
			},
			Cell: cell(c.Type, c.JSONPath),
		})
	}
	return out
}

// cell finds the value of a column. The path is parsed for the first row.
func cell(kind, path string) func(kinds.Object) any {
	find := sync.OnceValue(func() finder { return newFinder(path) })
	return func(obj kinds.Object) any {
		v, ok := find()(obj.(*Object))
		if !ok {
			return nil
		}
		return convert(kind, v)
	}
}

// finder finds the first value that a JSON path leads to.
type finder func(o *Object) (any, bool)

func newFinder(path string) finder {
	if names := fieldsOf(path); simple(names) && names[0] != "metadata" {
		return func(o *Object) (any, bool) { return o.nested(names) }
	}
	if path == ".metadata.creationTimestamp" {
		return func(o *Object) (any, bool) {
			return o.CreationTimestamp.UTC().Format(time.RFC3339), !o.CreationTimestamp.IsZero()
		}
	}
	parsed := jsonpath.New("column")
	parsed.AllowMissingKeys(true)
	if parsed.Parse("{"+path+"}") != nil {
		return func(*Object) (any, bool) { return nil, false }
	}
	var mu sync.Mutex // a parsed path holds state while it is followed
	return func(o *Object) (any, bool) {
		mu.Lock()
		defer mu.Unlock()
		found, err := parsed.FindResults(o.Unstructured().Object)
		if err != nil || len(found) == 0 || len(found[0]) == 0 {
			return nil, false
		}
		return found[0][0].Interface(), true
	}
}

// simple tells whether a path is names and dots only.
func simple(names []string) bool {
	for _, n := range names {
		if n == "" || strings.ContainsAny(n, `[]{}()*?@$'"\,:`) {
			return false
		}
	}
	return true
}

// convert gives a value the type of its column; nil when it has another.
func convert(kind string, v any) any {
	switch kind {
	case "integer":
		switch n := v.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		}
	case "number":
		switch n := v.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		}
	case "boolean":
		if b, ok := v.(bool); ok {
			return b
		}
	case "date":
		if text, ok := v.(string); ok {
			return age(text)
		}
	case "string":
		return print(v)
	}
	return nil
}

func age(text string) string {
	var t metav1.Time
	if err := t.UnmarshalQueryParameter(text); err != nil {
		return "<invalid>"
	}
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// print writes any value as kubectl's JSON paths do.
func print(v any) any {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return nil
	}
	var b bytes.Buffer
	if err := jsonpath.New("column").PrintResults(&b, []reflect.Value{reflect.ValueOf(v)}); err != nil {
		return nil
	}
	return b.String()
}
