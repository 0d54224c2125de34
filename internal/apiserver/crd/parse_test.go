package crd

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"

	"github.com/setpoint-project/setpoint/internal/mutate"
)

func byteSeeds(texts ...string) [][]byte {
	out := make([][]byte, len(texts))
	for i, s := range texts {
		out[i] = []byte(s)
	}
	return out
}

var parseSeeds = byteSeeds(
	`{"a":1,"b":[true,false,null,"x",-1.5e3,{}],"c":{"d":"\u00e9<&>"}}`, `{"a":1,"a":2}`, `01`, `-`, `1.`, `1e400`, `9223372036854775808`,
	`"`+"\x01"+`"`, `"é"`, `[1,]`, `{"a"}`, ` [ ] `, `truex`, strings.Repeat("[", 200), `-0`, `0.10`, "\"\xff\"", `{"":{}}`,
)

// What parse reads, the library reads, and as the same.
func FuzzParse(f *testing.F) {
	for _, s := range parseSeeds {
		f.Add(s)
	}
	f.Fuzz(checkParse)
}

func TestMutatedJSON(t *testing.T) { mutate.Run(t, parseSeeds, checkParse) }

func checkParse(t *testing.T, data []byte) {
	got, ok := parse(data, nil)
	if !ok {
		return
	}
	var want any
	strict, err := kjson.UnmarshalStrict(data, &want)
	if err != nil || len(strict) > 0 {
		t.Fatalf("parsed %q, of which the library says %v %v", data, strict, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: %#v, want %#v", data, got, want)
	}
}

var objectSeeds = byteSeeds(
	`{"apiVersion":"g/v1","kind":"K","metadata":{"name":"a","labels":{"b":"c"}},"spec":{"x":[1,2.5,"é",null]},"aaa":true}`,
	`{"metadata":null,"spec":1,"spec":2}`, `[]`,
)

// Whatever comes as a body is read or refused; what was read is written and
// read again as the same.
func FuzzObject(f *testing.F) {
	for _, s := range objectSeeds {
		f.Add(s)
	}
	f.Fuzz(checkObject)
}

func TestMutatedObjects(t *testing.T) { mutate.Run(t, objectSeeds, checkObject) }

func checkObject(t *testing.T, data []byte) {
	one := &Object{}
	if _, err := one.DecodeJSON(data, true); err != nil {
		return
	}
	text, err := one.EncodeJSON()
	if err != nil {
		t.Fatalf("%q cannot be written: %v", data, err)
	}
	two := &Object{}
	if _, err := two.DecodeJSON(text, false); err != nil {
		t.Fatalf("%q, written as %q, cannot be read: %v", data, text, err)
	}
	again, err := two.EncodeJSON()
	if err != nil || string(again) != string(text) {
		t.Fatalf("%q is written as %q and then as %q, %v", data, text, again, err)
	}
	if !reflect.DeepEqual(one.DeepCopyObject(), one) {
		t.Fatal("a copy differs")
	}
}

// schemaSeeds are a schema and an object of it, with between in between.
var schemaSeeds = byteSeeds(
	`{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"default":{}}}}`+between+`{"spec":{"a":1}}`,
	`{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"}}}}}}`+between+`{"a":[{"k":"x"},{"k":"x"}]}`,
	`{"x-kubernetes-int-or-string":true,"nullable":true,"additionalProperties":{"x-kubernetes-embedded-resource":true,"type":"object"}}`+between+`{"b":{"metadata":1}}`,
	`{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":9,"multipleOf":2},"s":{"type":"string","pattern":"^a+$","maxLength":5,"format":"date-time","enum":["a"]}},"required":["n"],"x-kubernetes-validations":[{"rule":"self.n > 1","message":"m"}]}`+between+`{"n":4,"s":"aa"}`,
)

const between = "\x1e"

// A schema, however odd, makes a kind or an error, and its objects are read or
// refused.
func FuzzSchema(f *testing.F) {
	for _, s := range schemaSeeds {
		f.Add(s)
	}
	f.Fuzz(checkSchema)
}

func TestMutatedSchemas(t *testing.T) { mutate.Run(t, schemaSeeds, checkSchema) }

func checkSchema(t *testing.T, data []byte) {
	schema, object, _ := bytes.Cut(data, []byte(between))
	props := &apiextensionsv1.JSONSchemaProps{}
	if kjson.UnmarshalCaseSensitivePreserveInts(schema, props) != nil {
		return
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Group, crd.Spec.Names = "example.com", apiextensionsv1.CustomResourceDefinitionNames{Plural: "as", Kind: "A"}
	v := apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props}}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{v}
	k, err := newKind(crd, nil)
	if err != nil {
		return
	}
	hub := k.HubVersion()
	if _, err := hub.Schema.OpenAPI(true); err != nil {
		t.Logf("openapi: %v", err)
	}
	hub.Schema.Typed()
	obj := hub.New().(*Object)
	if _, err := obj.DecodeJSON(object, true); err != nil {
		return
	}
	hub.Default(obj)
	hub.Validate(t.Context(), obj, nil, "")
}
