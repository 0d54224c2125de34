package crd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Schema of a version, for those who describe or apply its objects. It
// implements kinds.Schema. Nothing is kept of what it makes: clients ask
// seldom, and the encoded schema is there.
type Schema struct{ version *version }

// Hash implements kinds.Schema.
func (s Schema) Hash() string {
	sum := sha256.Sum256(s.version.encoded)
	if s.version.preserve {
		sum[0]++
	}
	return hex.EncodeToString(sum[:])
}

// OpenAPI implements kinds.Schema.
func (s Schema) OpenAPI(two bool) ([]byte, error) {
	props := &apiextensionsv1.JSONSchemaProps{Type: "object"}
	if s.version.encoded != nil {
		var err error
		if props, err = decodeProps(s.version.encoded); err != nil {
			return nil, err
		}
	}
	if s.version.preserve {
		yes := true
		props = &apiextensionsv1.JSONSchemaProps{Type: "object", Description: props.Description, XPreserveUnknownFields: &yes}
	}
	publish(props, two)
	return json.Marshal(props)
}

// publish makes of a schema what clients are shown. Version 2 of OpenAPI knows
// neither alternatives nor null: where a field has them, clients are told less
// rather than something wrong, since they check objects by it.
func publish(s *apiextensionsv1.JSONSchemaProps, two bool) {
	if two {
		s.AllOf, s.AnyOf, s.OneOf, s.Not = nil, nil, nil, nil
		if s.XIntOrString {
			s.Type = ""
		}
		if s.Nullable {
			s.Nullable = false
			s.Type, s.Items, s.Properties, s.AdditionalProperties = "", nil, nil, nil
		}
		if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
			s.Items, s.Properties, s.AdditionalProperties, s.Required = nil, nil, nil, nil
			if s.Type == "object" {
				s.Type = ""
			}
		}
		if s.Type == "array" && s.Items == nil {
			s.Type = ""
		}
	}
	if a := s.AdditionalProperties; a != nil && a.Schema == nil { // true or false, which documents do not use
		s.AdditionalProperties = nil
		if a.Allows {
			s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{}}
		}
	} else if a != nil {
		publish(a.Schema, two)
	}
	if s.Items != nil && s.Items.Schema != nil {
		publish(s.Items.Schema, two)
	}
	for name, p := range s.Properties {
		publish(&p, two)
		s.Properties[name] = p
	}
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			publish(&list[i], two)
		}
	}
	if s.Not != nil {
		publish(s.Not, two)
	}
}
