package apply

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

// filler makes random objects. Strings are few, so that two objects often
// agree, and lists have doubles now and then.
func filler(seed int64) *randfill.Filler {
	words := []string{"", "a", "b", "c", `d"<é`}
	return randfill.NewWithSeed(seed).NilChance(0.6).NumElements(0, 3).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) { *s = words[c.Intn(len(words))] },
		func(n *int32, c randfill.Continue) { *n = int32(c.Intn(4)) },
		func(n *int64, c randfill.Continue) { *n = int64(c.Intn(4)) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(int64(c.Intn(3))*500, resource.DecimalSI)
		},
		func(t *metav1.Time, c randfill.Continue) {
			if *t = (metav1.Time{}); c.Bool() {
				*t = metav1.Unix(int64(c.Intn(3)), 0)
			}
		},
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(time.UnixMicro(int64(c.Intn(3)) + 1))
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(int32(c.Intn(2))); c.Bool() {
				*v = intstr.FromString("x")
			}
		},
		func(m *metav1.TypeMeta, c randfill.Continue) {},
		func(m *metav1.ManagedFieldsEntry, c randfill.Continue) {},
		func(j *apiextensionsv1.JSON, c randfill.Continue) { j.Raw = fmt.Appendf(nil, `[%d]`, c.Intn(2)) },
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = fmt.Appendf(nil, `{"a":%d}`, c.Intn(2)) },
	)
}

// mutate fills some of the fields of a struct anew.
func mutate(v reflect.Value, r *rand.Rand, f *randfill.Filler) {
	for i := range v.NumField() {
		x := v.Field(i)
		if !x.CanSet() || v.Type().Field(i).Name == "TypeMeta" || v.Type().Field(i).Name == "ManagedFields" {
			continue
		}
		_, whole := x.Addr().Interface().(json.Marshaler)
		switch {
		case whole && r.Intn(6) > 0:
		case whole || r.Intn(6) == 0:
			x.SetZero()
			f.Fill(x.Addr().Interface())
		case x.Kind() == reflect.Struct && x.NumField() > 0:
			mutate(x, r, f)
		case x.Kind() == reflect.Pointer && !x.IsNil() && x.Elem().Kind() == reflect.Struct && !marshals(x):
			mutate(x.Elem(), r, f)
		case x.Kind() == reflect.Slice:
			for j := range x.Len() {
				if e := x.Index(j); e.Kind() == reflect.Struct && !marshals(e.Addr()) {
					mutate(e, r, f)
				}
			}
		}
	}
}

func marshals(v reflect.Value) bool {
	_, ok := v.Interface().(json.Marshaler)
	return ok
}

// plain writes managers without times, in the order that they have.
func plain(t testing.TB, obj kinds.Object) []string {
	t.Helper()
	var out []string
	for _, e := range obj.GetManagedFields() {
		var set map[string]any
		if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &set); err != nil {
			t.Fatal(err)
		}
		data, _ := json.Marshal(set)
		out = append(out, fmt.Sprintf("%s %s %s %s %t %s", e.Manager, e.Operation, e.APIVersion, e.Subresource, e.Time != nil, data))
	}
	return out
}

// With more games come objects, such as schemas within schemas, that the
// library needs many seconds for.
var games = flag.Int64("games", 2, "random games to play with each kind")

// TestTrackAsTheLibraryDoes plays random writes of random managers to objects
// of every kind, and holds each against the merge library.
func TestTrackAsTheLibraryDoes(t *testing.T) {
	m := New()
	plainly := 0
	for _, kind := range all.Kinds() {
		k := m.Kind(kind)
		for version := range kind.Versions {
			subs := []string{""}
			for name, s := range kind.Subresources {
				if s.NewView == nil && s.GroupVersionKind.Empty() {
					subs = append(subs, name)
				}
			}
			t.Run(k.gvk(version).String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { // so that both write at one time
					for seed := range *games {
						plainly += play(t, k, version, subs, seed)
						if t.Failed() {
							t.Fatalf("seed %d", seed)
						}
					}
				})
			})
		}
	}
	if plainly < 200*int(*games) {
		t.Errorf("only %d writes went the short way", plainly)
	}
}

func play(t *testing.T, k *Kind, version int, subs []string, seed int64) (plainly int) {
	f, r := filler(seed), rand.New(rand.NewSource(seed))
	hub := func() kinds.Object {
		obj := k.kind.HubVersion().New()
		f.Fill(obj)
		obj.SetUID("1")
		obj.GetObjectKind().SetGroupVersionKind(k.gvk(k.kind.Hub))
		obj.SetManagedFields(nil)
		return obj
	}
	var live kinds.Object
	for step := range 6 {
		obj := hub()
		by := Request{Version: version, Manager: string(rune('a' + r.Intn(3)))}
		if live != nil {
			by.Subresource = subs[r.Intn(len(subs))]
			obj = live.DeepCopyObject().(kinds.Object)
			mutate(reflect.ValueOf(obj).Elem(), r, f)
			obj.SetUID("1")
			if r.Intn(3) == 0 {
				obj.SetManagedFields(nil)
			}
		}
		short, long := obj, obj.DeepCopyObject().(kinds.Object)
		if k.trackPlain(live, short, by) {
			plainly++
			k.trackAny(live, long, by)
			if diff := cmp.Diff(plain(t, long), plain(t, short)); diff != "" {
				t.Errorf("step %d, %+v (-library +ours):\n%s", step, by, diff)
				return plainly
			}
		}
		live = long
		time.Sleep(time.Second)
	}
	return plainly
}
