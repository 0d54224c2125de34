package crd

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// shape is what reading an object needs of its schema.
type shape struct {
	structural *schema.Structural
	form       *form // what structural says, for what is as it should be
	defaults   bool  // some field has a default
	embedded   bool  // some field holds a whole object
	unique     bool  // some list names nothing twice
}

// rules are what checking an object needs of its schema.
type rules struct {
	whole, status validation.SchemaValidator
	// quick and quickStatus accept most of what these do.
	quick, quickStatus *plain
	cel                *cel.Validator // nil: no rules
}

// decodeProps reads an encoded schema.
func decodeProps(data []byte) (*apiextensionsv1.JSONSchemaProps, error) {
	props := &apiextensionsv1.JSONSchemaProps{}
	if err := props.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	return props, nil
}

// Internal turns a schema into the form that upstream's packages take.
func internal(props *apiextensionsv1.JSONSchemaProps) (*apiextensions.JSONSchemaProps, error) {
	out := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, out, nil); err != nil {
		return nil, fmt.Errorf("convert the schema: %w", err)
	}
	return out, nil
}

func compileShape(encoded []byte) (*shape, error) {
	props, err := decodeProps(encoded)
	if err != nil {
		return nil, err
	}
	in, err := internal(props)
	if err != nil {
		return nil, err
	}
	s, err := schema.NewStructural(in)
	if err != nil {
		return nil, fmt.Errorf("the schema is not structural: %w", err)
	}
	out := &shape{structural: s, form: newForm("", s)}
	out.look(s)
	return out, nil
}

// look finds out what reading can leave out.
func (sh *shape) look(s *schema.Structural) {
	if s == nil {
		return
	}
	sh.defaults = sh.defaults || s.Default.Object != nil
	sh.embedded = sh.embedded || s.XEmbeddedResource
	sh.unique = sh.unique || s.XListType != nil && *s.XListType != "atomic"
	sh.look(s.Items)
	if s.AdditionalProperties != nil {
		sh.look(s.AdditionalProperties.Structural)
	}
	for name := range s.Properties {
		p := s.Properties[name]
		sh.look(&p)
	}
}

func compileRules(encoded []byte, s *schema.Structural) (*rules, error) {
	props, err := decodeProps(encoded)
	if err != nil {
		return nil, err
	}
	in, err := internal(props)
	if err != nil {
		return nil, err
	}
	out := &rules{}
	if out.whole, _, err = validation.NewSchemaValidator(in); err != nil {
		return nil, err
	}
	out.quick = newPlain(in)
	if status, ok := in.Properties["status"]; ok {
		out.quickStatus = newPlain(&status)
		if out.status, _, err = validation.NewSchemaValidator(&status); err != nil {
			return nil, err
		}
	}
	out.cel = cel.NewValidator(s, true, celconfig.PerCallLimit)
	return out, nil
}
