package crd

import (
	"bytes"
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	kjson "sigs.k8s.io/json"

	"github.com/setpoint-project/setpoint/internal/mutate"
)

// plainSeeds are schemas and valid objects.
var plainSeeds = byteSeeds(
	`{"type":"object","required":["n"],"properties":{"n":{"type":"integer","format":"int32","minimum":1,"maximum":9,"exclusiveMaximum":true},"s":{"type":"string","pattern":"^a+$","minLength":1,"maxLength":5,"enum":["a","aa"]}}}`+between+`{"n":4,"s":"aa"}`,
	`{"type":"object","maxProperties":3,"properties":{"l":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"number","minimum":-1.5}},"m":{"type":"object","additionalProperties":{"type":"boolean","nullable":true}}}}`+between+`{"l":[1,2.5],"m":{"a":true,"b":null}}`,
	`{"type":"object","properties":{"p":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},"q":{"x-kubernetes-int-or-string":true},"u":{"x-kubernetes-preserve-unknown-fields":true}}}`+between+`{"p":"80%","q":3,"u":[{"a":1}],"other":"x"}`,
	`{"type":"object","properties":{"o":{"type":"object","minProperties":1,"x-kubernetes-preserve-unknown-fields":true,"properties":{"i":{"type":"integer","format":"int64"}}}}}`+between+`{"o":{"i":9007199254740991,"x":{}}}`,
	`{"type":"object","properties":{"c":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["t","n"],"items":{"type":"object","properties":{"t":{"type":"string"},"n":{"type":"number"}}}},"s":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}}`+between+`{"c":[{"t":"a","n":1},{"t":"a","n":2},{"t":"b","n":1}],"s":["a","b"]}`,
)

// TestPlain: it accepts what is valid here, and nothing that the validator
// refuses, however schemas and objects are changed.
func TestPlain(t *testing.T) {
	for _, seed := range plainSeeds {
		if accepted, refused, ok := judged(seed); !ok || !accepted || refused {
			t.Errorf("%s: accepted: %v, refused: %v", seed, accepted, refused)
		}
	}
	for _, twice := range byteSeeds(`{"c":[{"t":"a","n":1},{"t":"b","n":1},{"t":"a","n":1}]}`, `{"s":["a","b","a"]}`) {
		schema, _, _ := bytes.Cut(plainSeeds[len(plainSeeds)-1], []byte(between))
		if accepted, refused, ok := judged(append(append(bytes.Clone(schema), between...), twice...)); !ok || accepted || !refused {
			t.Errorf("%s: accepted: %v, refused: %v", twice, accepted, refused)
		}
	}
	for _, odd := range byteSeeds(
		`{"type":"object","properties":{"s":{"type":"string","nullable":true,"enum":["a"]}}}`+between+`{"s":null}`,
		`{"type":"object","properties":{"n":{"type":"number","maximum":1.5,"exclusiveMaximum":true}}}`+between+`{"n":1}`,
		`{"type":"object","properties":{"n":{"type":"integer","maximum":1.5}}}`+between+`{"n":1}`,
	) {
		if accepted, refused, ok := judged(odd); !ok || accepted || !refused {
			t.Errorf("%s: accepted: %v, refused: %v", odd, accepted, refused)
		}
	}
	bare, both := 0, 0
	mutate.Run(t, append(plainSeeds, schemaSeeds...), func(t *testing.T, data []byte) {
		accepted, refused, ok := judged(data)
		if ok {
			bare++
		}
		if accepted {
			both++
		}
		if accepted && refused {
			t.Fatalf("accepts what is refused: %s", data)
		}
	})
	t.Logf("%d pairs were read, %d accepted", bare, both)
}

func judged(data []byte) (accepted, refused, ok bool) {
	schema, text, _ := bytes.Cut(data, []byte(between))
	props := &apiextensionsv1.JSONSchemaProps{}
	var object any
	if kjson.UnmarshalCaseSensitivePreserveInts(schema, props) != nil || kjson.UnmarshalCaseSensitivePreserveInts(text, &object) != nil || !json.Valid(text) {
		return false, false, false
	}
	in, err := internal(props)
	if err != nil {
		return false, false, false
	}
	v, _, err := validation.NewSchemaValidator(in)
	if err != nil {
		return false, false, false
	}
	refused = len(validation.ValidateCustomResource(nil, object, v)) > 0
	if s, err := structural.NewStructural(in); err == nil {
		if m, ok := object.(map[string]any); ok {
			refused = refused || len(listtype.ValidateListSetsAndMaps(nil, s, m)) > 0
		}
	}
	return newPlain(in).accepts(object), refused, true
}
