package crd

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/setpoint-project/setpoint/internal/mutate"
)

// formSeeds are schemas and objects of them, some as they should be.
var formSeeds = byteSeeds(
	`{"type":"object","properties":{"a":{"type":"object","default":{},"properties":{"n":{"type":"integer","default":3},"m":{"type":"string","nullable":true,"default":"x"}}},"l":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string","default":"y"}}}}}}`+between+`{"a":{"n":1,"m":null},"l":[{"k":"z"}]}`,
	`{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"object","properties":{"d":{"type":"boolean","default":true}}}},"p":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"i":{"type":"object","properties":{"j":{"type":"string"}}}}}}}`+between+`{"m":{"one":{}},"p":{"i":{"j":"1"},"u":{"v":null}}}`,
	`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"l":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}}}}}}`+between+`{"l":[{"k":"a","u":1}],"x":[{"y":null}]}`,
	`{"type":"object","properties":{"l":{"type":"array","default":[1,2],"items":{"type":"integer"}},"n":{"type":"string"}}}`+between+`{"n":null,"u":1}`,
)

// TestFormAsTheLibraryDoes: what a form lets through the library leaves as it
// is, and what it fills in the library fills in.
func TestFormAsTheLibraryDoes(t *testing.T) {
	clean, filled, both := 0, 0, 0
	mutate.Run(t, append(formSeeds, schemaSeeds...), func(t *testing.T, data []byte) {
		text, object, _ := bytes.Cut(data, []byte(between))
		props := &apiextensionsv1.JSONSchemaProps{}
		if kjson.UnmarshalCaseSensitivePreserveInts(text, props) != nil {
			return
		}
		var v map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts(object, &v) != nil || v == nil {
			return
		}
		for _, name := range headNames {
			delete(v, name)
		}
		in, err := internal(props)
		if err != nil {
			return
		}
		s, err := schema.NewStructural(in)
		if err != nil || embeds(s) {
			return
		}
		f := newForm("", s)
		pruned := runtime.DeepCopyJSON(v)
		pruning.Prune(pruned, s, true)
		if f.clean(v, false) {
			clean++
			if diff := cmp.Diff(pruned, v); diff != "" {
				t.Fatalf("%s\nis pruned (-library +ours):\n%s", data, diff)
			}
		}
		want := runtime.DeepCopyJSON(pruned)
		defaulting.PruneNonNullableNullsWithoutDefaults(want, s)
		defaulting.Default(want, s)
		if !f.sound(pruned) {
			return
		}
		filled++
		if f.filled(pruned) {
			both++
			if diff := cmp.Diff(want, pruned); diff != "" {
				t.Fatalf("%s\nhas more defaults (-library +ours):\n%s", data, diff)
			}
		}
		f.fill(pruned)
		if diff := cmp.Diff(want, pruned); diff != "" {
			t.Fatalf("%s\nhas other defaults (-library +ours):\n%s", data, diff)
		}
	})
	t.Logf("%d were clean, %d sound, %d had all defaults", clean, filled, both)
	if clean == 0 || filled == 0 || both == 0 || filled == both {
		t.Error("some of it was never tried")
	}
}

func embeds(s *schema.Structural) bool {
	sh := &shape{}
	sh.look(s)
	return sh.embedded
}

var metaSeeds = byteSeeds(
	`{"name":"a","generateName":"b","namespace":"c","selfLink":"d","uid":"e","resourceVersion":"5","generation":3,"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:05+01:00","deletionGracePeriodSeconds":30}`,
	`{"labels":{"a":"b","c":"<é>"},"annotations":{},"finalizers":["x/y","z"],"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true,"blockOwnerDeletion":false}]}`,
	`{"managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"k:{\"name\":\"a b\"}":{}},"subresource":"status"},{"fieldsV1":{}},{}]}`,
	`{"name":null,"labels":null,"creationTimestamp":null,"finalizers":[],"ownerReferences":[null],"managedFields":[]}`,
	`{"name":"","name":"x","generation":0,"deletionGracePeriodSeconds":0,"unknown":{"a":[1]}}`,
	`{"generation":1.5,"uid":7,"creationTimestamp":"yesterday","labels":{"a":"b","a":"c"}}`,
)

// TestMutatedMeta: what parseMeta reads, the library reads, as the same and
// without complaint; what appendMeta writes, the library writes.
func TestMutatedMeta(t *testing.T) {
	read := 0
	mutate.Run(t, metaSeeds, func(t *testing.T, data []byte) {
		var got, want metav1.ObjectMeta
		ok := parseMeta(data, &got)
		strict, err := kjson.UnmarshalStrict(data, &want)
		if ok {
			read++
			if err != nil || len(strict) > 0 {
				t.Fatalf("read %q, of which the library says %v %v", data, strict, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q (-library +ours):\n%s", data, diff)
			}
		}
		if err == nil {
			sameMeta(t, &want)
		}
	})
	if read < 5 {
		t.Errorf("only %d of all were read", read)
	}
}

func sameMeta(t *testing.T, m *metav1.ObjectMeta) {
	t.Helper()
	want, err := json.Marshal(m)
	got, failed := appendMeta(nil, m)
	if (err == nil) != (failed == nil) || string(got) != string(want) {
		t.Fatalf("%+v is written as\n%s, want\n%s (%v, %v)", m, got, want, failed, err)
	}
}

// TestSettle: an object that settles is what is read of what it writes, however
// odd it was before, and what it shared with another is as it was.
func TestSettle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	v := formVersion(t, `{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","default":1},"x":{"x-kubernetes-preserve-unknown-fields":true,"nullable":true}}}}}`)
	settled := 0
	for range 3000 {
		o := &Object{version: v, ObjectMeta: oddMeta(r), Fields: map[string]any{"spec": oddValue(r, 0)}}
		o.SetGroupVersionKind(v.gvk)
		managers := slices.Clone(o.ManagedFields)
		shared := o.ManagedFields
		text, err := o.EncodeJSON()
		if err != nil {
			continue
		}
		if !o.Settle() {
			continue
		}
		settled++
		read, err := v.load(text)
		if err != nil {
			t.Fatalf("read %s: %v", text, err)
		}
		if diff := cmp.Diff(read.ObjectMeta, o.ObjectMeta); diff != "" {
			t.Fatalf("metadata of %s (-read +settled):\n%s", text, diff)
		}
		if !reflect.DeepEqual(read.Fields, o.Fields) || read.TypeMeta != o.TypeMeta {
			t.Fatalf("%s: settled as %#v, read as %#v", text, o.Fields, read.Fields)
		}
		if len(o.ManagedFields) > 0 {
			o.ManagedFields[0].Manager = "changed"
		}
		if !reflect.DeepEqual(managers, shared) {
			t.Fatalf("%s: the managers of another object were changed", text)
		}
	}
	if settled < 300 || settled > 2700 {
		t.Errorf("%d of 3000 settled", settled)
	}
}

func formVersion(t *testing.T, text string) *version {
	props := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal([]byte(text), props); err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Group, crd.Spec.Names.Kind = "example.com", "A"
	v, err := newVersion(crd, &apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// oddly is one of some, the first mostly.
func oddly[T any](r *rand.Rand, some ...T) T {
	if r.IntN(3*len(some)) >= len(some) {
		return some[0]
	}
	return some[r.IntN(len(some))]
}

func oddMeta(r *rand.Rand) metav1.ObjectMeta {
	second := metav1.NewTime(time.Unix(1767323045, 0))
	odd := metav1.NewTime(time.Unix(1767323045, 7).UTC())
	text := func() string { return oddly(r, "a", "", "<&>", "é", "a", "a", "a", "\xff") }
	return metav1.ObjectMeta{
		Name: text(), UID: types.UID(text()), Generation: oddly(r, int64(1), 0),
		CreationTimestamp: oddly(r, second, second, odd, metav1.Time{}),
		DeletionTimestamp: oddly(r, nil, nil, &second, &odd, &metav1.Time{}),
		Labels:            oddly(r, map[string]string{"a": text()}, nil, map[string]string{}),
		Finalizers:        oddly(r, []string{"a/b"}, nil, []string{}),
		OwnerReferences:   oddly(r, nil, []metav1.OwnerReference{{Kind: text()}}, []metav1.OwnerReference{}),
		ManagedFields: oddly(r, []metav1.ManagedFieldsEntry{{Manager: text(), Time: oddly(r, &second, nil, &odd), FieldsType: "FieldsV1",
			FieldsV1: oddly(r, metav1.NewFieldsV1(`{"f:a":{}}`), nil, metav1.NewFieldsV1(`{"f:a": {}}`))}}, nil, []metav1.ManagedFieldsEntry{}),
	}
}

func oddValue(r *rand.Rand, depth int) any {
	switch oddly(r, 0, 0, 0, 1, 2, 3, 4) {
	case 1:
		return oddly[any](r, nil, 1.0, "\xff", -0.0)
	case 2:
		return oddly[any](r, []any{int64(1)}, []any(nil), []any{nil}, map[string]any(nil))
	case 3:
		return oddly[any](r, "s", true, 1.5, int64(1)<<60, int32(3))
	}
	if depth > 3 {
		return int64(1)
	}
	return map[string]any{"n": int64(2), "x": oddValue(r, depth+1)}
}
