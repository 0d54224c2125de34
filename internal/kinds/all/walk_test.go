package all

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// whole fills every field of an object, each with another value, so that one
// that is lost or mixed up with another shows.
type whole struct {
	n       int
	fields  int
	parents []reflect.Type // types that hold themselves end here
}

func (w *whole) next() int { w.n++; return w.n }

func (w *whole) fill(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = metav1.Unix(int64(1e9+w.next()), 0).Rfc3339Copy()
		return
	case *metav1.MicroTime:
		*p = metav1.NewMicroTime(time.Unix(int64(1e9+w.next()), 0).UTC())
		return
	case *resource.Quantity:
		*p = *resource.NewQuantity(int64(w.next()), resource.DecimalSI)
		return
	case *intstr.IntOrString:
		*p = intstr.FromInt32(int32(w.next()))
		return
	case *runtime.RawExtension:
		p.Raw = fmt.Appendf(nil, `{"a":%d}`, w.next())
		return
	case *metav1.FieldsV1:
		p.Raw = []byte(`{"f:a":{}}`)
		return
	case *apiextensionsv1.JSON:
		p.Raw = fmt.Appendf(nil, `%d`, w.next())
		return
	case *apiextensionsv1.JSONSchemaPropsOrArray: // one or the other
		w.fill(v.FieldByName("Schema"))
		return
	case *apiextensionsv1.JSONSchemaPropsOrStringArray:
		w.fill(v.FieldByName("Property"))
		return
	case *metav1.TypeMeta:
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(w.next()))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(w.next() % 128))
	case reflect.Float64:
		v.SetFloat(float64(w.next()))
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", w.next()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		w.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		w.fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		w.fill(key)
		w.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for _, t := range w.parents {
			if t == v.Type() {
				return
			}
		}
		w.parents = append(w.parents, v.Type())
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				w.fields++
				w.fill(v.Field(i))
			}
		}
		w.parents = w.parents[:len(w.parents)-1]
	default:
		panic("no value for " + v.Type().String())
	}
}

// TestEveryFieldSurvives sends an object with all its fields through each of
// the encodings of the API, and fills in its defaults twice.
func TestEveryFieldSurvives(t *testing.T) {
	total := 0
	for _, k := range Kinds() {
		for i := range k.Versions {
			v := &k.Versions[i]
			gvk := v.GroupVersion.WithKind(k.VersionKind(v))
			t.Run(gvk.String(), func(t *testing.T) {
				var w whole
				obj := v.New()
				w.fill(reflect.ValueOf(obj).Elem())
				total += w.fields
				for name, trip := range map[string]func(obj, to kinds.Object) error{
					"JSON":     throughJSON,
					"protobuf": throughProtobuf,
					"CBOR":     throughCBOR,
				} {
					read := v.New()
					if err := trip(obj, read); err != nil {
						t.Errorf("%s: %v", name, err)
					} else if !apiequality.Semantic.DeepEqual(obj, read) {
						t.Errorf("%s loses something:\n%s", name, differ(obj, read))
					}
				}
				if v.Default == nil {
					return
				}
				v.Default(obj)
				twice := clone(obj)
				v.Default(twice)
				if diff := differ(obj, twice); diff != "" {
					t.Errorf("defaults of defaults differ:\n%s", diff)
				}
			})
		}
	}
	if total < 5000 {
		t.Errorf("only %d fields were walked", total)
	}
}

func throughJSON(obj, to kinds.Object) error {
	data, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

func throughProtobuf(obj, to kinds.Object) error {
	data, err := obj.(protoMessage).Marshal()
	if err != nil {
		return err
	}
	return to.(protoMessage).Unmarshal(data)
}

func throughCBOR(obj, to kinds.Object) error {
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Any"}
	s := cbor.NewSerializer(only{to, gvk}, only{to, gvk})
	var data bytes.Buffer
	if err := s.Encode(obj, &data); err != nil {
		return err
	}
	_, _, err := s.Decode(data.Bytes(), &gvk, to)
	to.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return err
}

// only knows one object and its type.
type only struct {
	obj runtime.Object
	gvk schema.GroupVersionKind
}

func (o only) New(schema.GroupVersionKind) (runtime.Object, error) { return o.obj, nil }

func (o only) ObjectKinds(runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{o.gvk}, false, nil
}

func (o only) Recognizes(gvk schema.GroupVersionKind) bool { return gvk == o.gvk }
