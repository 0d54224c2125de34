package all

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// filler makes random objects of the sort that come out of a decoder.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.5).NumElements(0, 3).MaxDepth(14).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(int64(c.Intn(1<<20)), resource.DecimalSI)
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Intn(1<<31)), 0).Rfc3339Copy() },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(int64(c.Intn(1<<31)), 0).Rfc3339Copy().Time)
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(int32(c.Intn(1 << 16))); c.Bool() {
				*v = intstr.FromString(c.String(0))
			}
		},
		func(m *metav1.TypeMeta, c randfill.Continue) {},
		func(m *metav1.ManagedFieldsEntry, c randfill.Continue) {},
		func(s *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			*s = apiextensionsv1.JSONSchemaProps{Type: "object", Default: &apiextensionsv1.JSON{Raw: []byte(`{"a":1}`)}}
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(`{"a":1}`) },
	)
}

// forEach runs f with random objects of every version of every kind.
func forEach(t *testing.T, f func(t *testing.T, k *kinds.Kind, v *kinds.Version, fill func() kinds.Object)) {
	for _, k := range Kinds() {
		for i := range k.Versions {
			v := &k.Versions[i]
			t.Run(v.GroupVersion.WithKind(k.Kind).String(), func(t *testing.T) {
				for seed := range int64(8) {
					random := filler(seed)
					f(t, k, v, func() kinds.Object {
						obj := v.New()
						random.Fill(obj)
						obj.GetObjectKind().SetGroupVersionKind(v.GroupVersion.WithKind(k.VersionKind(v)))
						obj.SetManagedFields(nil)
						return obj
					})
					if t.Failed() {
						t.Fatalf("seed %d", seed)
					}
				}
			})
		}
	}
}

// differ describes how two objects differ; it is slow only if they do.
func differ(a, b kinds.Object) string {
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return cmp.Diff(a, b)
}

func clone(obj kinds.Object) kinds.Object { return obj.DeepCopyObject().(kinds.Object) }

func TestDefaultsAreIdempotent(t *testing.T) {
	forEach(t, func(t *testing.T, k *kinds.Kind, v *kinds.Version, fill func() kinds.Object) {
		if v.Default == nil {
			return
		}
		once := fill()
		v.Default(once)
		twice := clone(once)
		v.Default(twice)
		if diff := differ(once, twice); diff != "" {
			t.Errorf("defaults of defaults differ:\n%s", diff)
		}
		v.Default(v.New())
	})
}

type protoMessage interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// TestDefaultsSurviveEncoding: what is stored and read again is defaulted as
// before, or every read would change the object.
func TestDefaultsSurviveEncoding(t *testing.T) {
	forEach(t, func(t *testing.T, k *kinds.Kind, v *kinds.Version, fill func() kinds.Object) {
		obj := fill()
		if v.Default != nil {
			v.Default(obj)
		}
		data, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		read := v.New()
		if err := json.Unmarshal(data, read); err != nil {
			t.Fatal(err)
		}
		if v.Default != nil {
			v.Default(read)
		}
		if !apiequality.Semantic.DeepEqual(obj, read) {
			t.Errorf("JSON changes the object:\n%s", cmp.Diff(obj, read))
		}
		message, ok := obj.(protoMessage)
		if !ok {
			t.Fatal("no protobuf")
		}
		if data, err = message.Marshal(); err != nil {
			t.Fatal(err)
		}
		read = v.New()
		if err := read.(protoMessage).Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		read.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
		if !apiequality.Semantic.DeepEqual(obj, read) {
			t.Errorf("protobuf changes the object:\n%s", cmp.Diff(obj, read))
		}
	})
}

func TestConversionsKeepWhatTheyAreGiven(t *testing.T) {
	forEach(t, func(t *testing.T, k *kinds.Kind, v *kinds.Version, fill func() kinds.Object) {
		if v.ToHub == nil {
			return
		}
		obj := fill()
		before := clone(obj)
		hub, err := v.ToHub(obj)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(obj, before) {
			t.Error("ToHub changes its argument")
		}
		before = clone(hub)
		if _, err := v.FromHub(hub); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(hub, before) {
			t.Error("FromHub changes its argument")
		}
		for _, in := range []kinds.Object{v.New(), k.HubVersion().New()} {
			if reflect.TypeOf(in) == reflect.TypeOf(v.New()) {
				v.ToHub(in)
			} else {
				v.FromHub(in)
			}
		}
	})
}

// hubOnly runs f with random and with empty objects of the hub version.
func hubOnly(t *testing.T, f func(t *testing.T, k *kinds.Kind, obj, old kinds.Object)) {
	forEach(t, func(t *testing.T, k *kinds.Kind, v *kinds.Version, fill func() kinds.Object) {
		if v != k.HubVersion() {
			return
		}
		a, b := fill(), fill()
		if v.Default != nil {
			v.Default(a)
			v.Default(b)
		}
		f(t, k, a, b)
		f(t, k, fill(), fill())
		f(t, k, v.New(), v.New())
		f(t, k, v.New(), fill())
		f(t, k, fill(), v.New())
	})
}

func TestPrepareNeverChangesOld(t *testing.T) {
	ctx := context.Background()
	hubOnly(t, func(t *testing.T, k *kinds.Kind, obj, old kinds.Object) {
		before := clone(old)
		if k.PrepareUpdate != nil {
			k.PrepareUpdate(ctx, clone(obj), old)
		}
		for _, sub := range k.Subresources {
			if sub.PrepareUpdate != nil {
				sub.PrepareUpdate(ctx, clone(obj), old)
			}
		}
		if diff := differ(before, old); diff != "" {
			t.Errorf("old changed:\n%s", diff)
		}
	})
}

// TestRulesStandAnything: whatever comes in, rules answer; and they only look.
func TestRulesStandAnything(t *testing.T) {
	ctx := context.Background()
	hubOnly(t, func(t *testing.T, k *kinds.Kind, obj, old kinds.Object) {
		was, before := clone(obj), clone(old)
		if k.Validate != nil {
			k.Validate(ctx, obj)
		}
		if k.ValidateUpdate != nil {
			k.ValidateUpdate(ctx, obj, old)
		}
		if k.Warnings != nil {
			k.Warnings(ctx, obj, nil)
			k.Warnings(ctx, obj, old)
		}
		for _, sub := range k.Subresources {
			if sub.ValidateUpdate != nil {
				sub.ValidateUpdate(ctx, obj, old)
			}
			if sub.Get != nil {
				if view, err := sub.Get(obj); err == nil {
					sub.Set(obj, view)
				}
			}
		}
		if k.SelectableFields != nil {
			set := k.SelectableFields(obj)
			for _, name := range k.FieldNames {
				if _, ok := set[name]; !ok {
					t.Errorf("field %s is announced and missing", name)
				}
			}
			if len(set) != len(k.FieldNames) {
				t.Errorf("fields %v, announced %v", set, k.FieldNames)
			}
		}
		if k.Grace != nil {
			k.Grace(obj, nil)
		}
		if diff := differ(was, obj); diff != "" {
			t.Errorf("obj changed:\n%s", diff)
		}
		if diff := differ(before, old); diff != "" {
			t.Errorf("old changed:\n%s", diff)
		}
		if k.PrepareCreate != nil {
			k.PrepareCreate(ctx, clone(obj))
		}
	})
}

func TestColumnsStandAnything(t *testing.T) {
	hubOnly(t, func(t *testing.T, k *kinds.Kind, obj, _ kinds.Object) {
		if len(k.Columns) == 0 && k.StoragePrefix != "" {
			t.Error("no columns")
		}
		for _, c := range k.Columns {
			switch v := c.Cell(obj).(type) {
			case string, int64, bool, nil:
			default:
				t.Errorf("column %s is a %T", c.Name, v)
			}
		}
	})
}
