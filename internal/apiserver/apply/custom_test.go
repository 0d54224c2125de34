package apply

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// widget is an object of a custom kind.
type widget struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	body map[string]any
}

func (w *widget) Body() map[string]any { return w.body }

func (w *widget) DeepCopyObject() runtime.Object {
	return &widget{w.TypeMeta, *w.ObjectMeta.DeepCopy(), runtime.DeepCopyJSON(w.body)}
}

func (w *widget) Unstructured() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(w.body)}
	u.Object["metadata"], _ = runtime.DefaultUnstructuredConverter.ToUnstructured(&w.ObjectMeta)
	u.SetGroupVersionKind(w.GroupVersionKind())
	return u
}

func (w *widget) EncodeJSON() ([]byte, error) { return json.Marshal(w.Unstructured()) }

func (w *widget) DecodeJSON(data []byte, _ bool) ([]error, error) {
	var u unstructured.Unstructured
	if err := json.Unmarshal(data, &u.Object); err != nil {
		return nil, err
	}
	w.SetGroupVersionKind(u.GroupVersionKind())
	w.body = runtime.DeepCopyJSON(numbers(u.Object).(map[string]any))
	meta, _ := w.body["metadata"].(map[string]any)
	delete(w.body, "metadata")
	delete(w.body, "apiVersion")
	delete(w.body, "kind")
	return nil, runtime.DefaultUnstructuredConverter.FromUnstructured(meta, &w.ObjectMeta)
}

// numbers makes integers of the numbers that are.
func numbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
	}
	return v
}

// text is a schema as structured merge writes it.
type text string

func (s text) OpenAPI(bool) ([]byte, error) { return nil, nil }
func (s text) Hash() string                 { return string(s) }
func (s text) Typed() *typed.ParseableType {
	p, err := typed.NewParser(typed.YAMLObject(s))
	if err != nil {
		panic(err)
	}
	return ptr(p.Type("widget"))
}

const widgets text = `
types:
- name: widget
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - name: metadata
      type: {map: {elementType: {namedType: __untyped_deduced_}}}
    - {name: spec, type: {namedType: spec}}
    - name: status
      type:
        map:
          fields: [{name: num, type: {scalar: numeric}}, {name: x, type: {scalar: string}}]
- name: spec
  map:
    fields:
    - {name: num, type: {scalar: numeric}}
    - {name: either, type: {scalar: untyped}}
    - {name: parts, type: {list: {elementRelationship: associative, keys: [name, port], elementType: {namedType: part}}}}
    - {name: names, type: {list: {elementRelationship: associative, elementType: {scalar: string}}}}
    - {name: list, type: {list: {elementRelationship: atomic, elementType: {map: {elementType: {scalar: string}}}}}}
    - {name: whole, type: {map: {elementRelationship: atomic, elementType: {scalar: string}}}}
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: any, type: {map: {elementType: {namedType: __untyped_deduced_}}}}
- name: part
  map:
    fields: [{name: name, type: {scalar: string}}, {name: port, type: {scalar: numeric}, default: 80}, {name: v, type: {scalar: numeric}}]
- name: __untyped_atomic_
  scalar: untyped
  list: {elementRelationship: atomic, elementType: {namedType: __untyped_atomic_}}
  map: {elementRelationship: atomic, elementType: {namedType: __untyped_atomic_}}
- name: __untyped_deduced_
  scalar: untyped
  list: {elementRelationship: atomic, elementType: {namedType: __untyped_atomic_}}
  map: {elementRelationship: separable, elementType: {namedType: __untyped_deduced_}}
`

func widgetKind(m *Managers, s kinds.Schema) *Kind {
	return m.Kind(&kinds.Kind{
		Resource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, Kind: "Widget",
		Versions: []kinds.Version{{
			GroupVersion: schema.GroupVersion{Group: "example.com", Version: "v1"}, Schema: s,
			New: func() kinds.Object { return &widget{body: map[string]any{}} },
		}},
		Subresources: map[string]*kinds.Subresource{"status": {}},
	})
}

// randomly makes what the schema of widgets allows.
func randomly(r *rand.Rand) map[string]any {
	word := func() any { return string(rune('a' + r.Intn(3))) }
	num := func() any { return int64(r.Intn(3)) }
	maybe := func(m map[string]any, key string, f func() any) {
		switch r.Intn(5) {
		case 0:
		case 1:
			m[key] = nil
		default:
			m[key] = f()
		}
	}
	list := func(f func() any) func() any {
		return func() any {
			out := make([]any, r.Intn(3))
			for i := range out {
				out[i] = f()
			}
			return out
		}
	}
	dict := func(f func() any) func() any {
		return func() any {
			out := map[string]any{}
			for range r.Intn(3) {
				out[word().(string)] = f()
			}
			return out
		}
	}
	body := map[string]any{}
	maybe(body, "spec", func() any {
		spec := map[string]any{}
		maybe(spec, "num", num)
		maybe(spec, "either", word)
		maybe(spec, "parts", list(func() any {
			part := map[string]any{"name": word()}
			if r.Intn(2) == 0 {
				part["port"] = num()
			}
			maybe(part, "v", func() any { return float64(r.Intn(4)) / 2 })
			return part
		}))
		maybe(spec, "names", list(word))
		maybe(spec, "list", list(dict(word)))
		maybe(spec, "whole", dict(word))
		maybe(spec, "labels", dict(word))
		maybe(spec, "any", dict(dict(num)))
		return spec
	})
	maybe(body, "status", func() any { return map[string]any{"num": num(), "x": word()} })
	return body
}

// TestTrackCustomAsTheLibraryDoes is TestTrackAsTheLibraryDoes for custom
// kinds, with a schema and without.
func TestTrackCustomAsTheLibraryDoes(t *testing.T) {
	for name, s := range map[string]kinds.Schema{"schema": widgets, "none": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plainly := 0
				for seed := range int64(150) {
					r := rand.New(rand.NewSource(seed))
					k := widgetKind(New(), s)
					var live kinds.Object
					for step := range 6 {
						obj := &widget{body: randomly(r)}
						obj.SetGroupVersionKind(k.gvk(0))
						obj.UID, obj.Labels = "1", map[string]string{"l": fmt.Sprint(r.Intn(2))}
						by := Request{Manager: string(rune('a' + r.Intn(3)))}
						if live != nil && r.Intn(2) == 0 {
							by.Subresource = "status"
						}
						long := obj.DeepCopyObject().(kinds.Object)
						k.trackAny(live, long, by)
						if k.trackPlain(live, obj, by) {
							plainly++
							if diff := cmp.Diff(plain(t, long), plain(t, obj)); diff != "" {
								t.Fatalf("seed %d, step %d, %+v (-library +ours):\n%s", seed, step, by, diff)
							}
						}
						live = long
						time.Sleep(time.Second)
					}
				}
				if plainly < 400 {
					t.Errorf("only %d writes went the short way", plainly)
				}
			})
		})
	}
}

func TestApplyCustom(t *testing.T) {
	k := widgetKind(New(), widgets)
	config := func(spec string) map[string]any {
		out := map[string]any{}
		if err := yaml.Unmarshal([]byte("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: "+spec), &out); err != nil {
			t.Fatal(err)
		}
		return numbers(out).(map[string]any)
	}
	apply := func(live kinds.Object, spec, manager string) (kinds.Object, error) {
		return k.Apply(live, config(spec), false, Request{Manager: manager})
	}
	one, err := apply(nil, `{num: 1, parts: [{name: a, v: 1}], names: [x]}`, "one")
	if err != nil {
		t.Fatal(err)
	}
	one.SetUID("1")
	two, err := apply(one, `{parts: [{name: b, port: 81}], names: [z]}`, "two")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"num": int64(1), "names": []any{"x", "z"},
		"parts": []any{map[string]any{"name": "a", "v": int64(1)}, map[string]any{"name": "b", "port": int64(81)}}}
	if diff := cmp.Diff(want, two.(*widget).body["spec"]); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if _, err := apply(two, `{parts: [{name: a, v: 2}]}`, "two"); err == nil {
		t.Error("no conflict")
	}
	if _, err := apply(two, `{nope: 1}`, "two"); err == nil {
		t.Error("a field that the schema does not know was applied")
	}
}
