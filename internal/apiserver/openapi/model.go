package openapi

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
