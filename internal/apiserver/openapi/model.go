package openapi

import "encoding/json"

// model is a schema. Which dialect it is in shows in its references only.
type model struct {
	Ref                  string            `json:"$ref,omitempty"`
	AllOf                []*model          `json:"allOf,omitempty"`
	OneOf                []*model          `json:"oneOf,omitempty"`
	Description          string            `json:"description,omitempty"`
	Type                 string            `json:"type,omitempty"`
	Format               string            `json:"format,omitempty"`
	Items                *model            `json:"items,omitempty"`
	AdditionalProperties *model            `json:"additionalProperties,omitempty"`
	Properties           map[string]*model `json:"properties,omitempty"`
	Required             []string          `json:"required,omitempty"`

	// What only the schemas of custom kinds say.
	Title            string            `json:"title,omitempty"`
	Default          json.RawMessage   `json:"default,omitempty"`
	Example          json.RawMessage   `json:"example,omitempty"`
	ExternalDocs     json.RawMessage   `json:"externalDocs,omitempty"`
	Enum             []json.RawMessage `json:"enum,omitempty"`
	Pattern          string            `json:"pattern,omitempty"`
	Maximum          *float64          `json:"maximum,omitempty"`
	ExclusiveMaximum bool              `json:"exclusiveMaximum,omitempty"`
	Minimum          *float64          `json:"minimum,omitempty"`
	ExclusiveMinimum bool              `json:"exclusiveMinimum,omitempty"`
	MultipleOf       *float64          `json:"multipleOf,omitempty"`
	MaxLength        *int64            `json:"maxLength,omitempty"`
	MinLength        *int64            `json:"minLength,omitempty"`
	MaxItems         *int64            `json:"maxItems,omitempty"`
	MinItems         *int64            `json:"minItems,omitempty"`
	UniqueItems      bool              `json:"uniqueItems,omitempty"`
	MaxProperties    *int64            `json:"maxProperties,omitempty"`
	MinProperties    *int64            `json:"minProperties,omitempty"`
	AnyOf            []*model          `json:"anyOf,omitempty"`
	Not              *model            `json:"not,omitempty"`
	Nullable         bool              `json:"nullable,omitempty"`
	IntOrString      bool              `json:"x-kubernetes-int-or-string,omitempty"`
	Embedded         bool              `json:"x-kubernetes-embedded-resource,omitempty"`
	MapType          string            `json:"x-kubernetes-map-type,omitempty"`
	Validations      json.RawMessage   `json:"x-kubernetes-validations,omitempty"`

	ListMapKeys   []string `json:"x-kubernetes-list-map-keys,omitempty"`
	ListType      string   `json:"x-kubernetes-list-type,omitempty"`
	PatchMergeKey string   `json:"x-kubernetes-patch-merge-key,omitempty"`
	PatchStrategy string   `json:"x-kubernetes-patch-strategy,omitempty"`
	// PreserveUnknown: anything goes below (custom objects without a schema).
	PreserveUnknown bool  `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	GVKs            []gvk `json:"x-kubernetes-group-version-kind,omitempty"`
}

type gvk struct {
	Group   string `json:"group"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

// dialect is OpenAPI v2 or v3.
type dialect struct {
	prefix string // of references
	three  bool
}

var (
	v2 = dialect{prefix: "#/definitions/"}
	v3 = dialect{prefix: "#/components/schemas/", three: true}
)

func (d dialect) ref(name string) *model { return &model{Ref: d.prefix + name} }
