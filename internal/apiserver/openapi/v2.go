package openapi

type (
	docV2 struct {
		Definitions         map[string]*model         `json:"definitions"`
		Info                info                      `json:"info"`
		Paths               map[string]*pathV2        `json:"paths"`
		Security            []map[string][]string     `json:"security"`
		SecurityDefinitions map[string]securityScheme `json:"securityDefinitions"`
		Swagger             string                    `json:"swagger"`
	}
	pathV2 struct {
		Get        *operationV2  `json:"get,omitempty"`
		Put        *operationV2  `json:"put,omitempty"`
		Post       *operationV2  `json:"post,omitempty"`
		Delete     *operationV2  `json:"delete,omitempty"`
		Head       *operationV2  `json:"head,omitempty"`
		Options    *operationV2  `json:"options,omitempty"`
		Patch      *operationV2  `json:"patch,omitempty"`
		Parameters []parameterV2 `json:"parameters,omitempty"`
	}
	operationV2 struct {
		Consumes    []string              `json:"consumes"`
		Description string                `json:"description"`
		OperationID string                `json:"operationId"`
		Parameters  []parameterV2         `json:"parameters,omitempty"`
		Produces    []string              `json:"produces"`
		Responses   map[string]responseV2 `json:"responses"`
		Schemes     []string              `json:"schemes"`
		Tags        []string              `json:"tags"`
		Action      string                `json:"x-kubernetes-action,omitempty"`
		GVK         *gvk                  `json:"x-kubernetes-group-version-kind,omitempty"`
	}
	parameterV2 struct {
		Description string `json:"description,omitempty"`
		In          string `json:"in"`
		Name        string `json:"name"`
		Required    bool   `json:"required,omitempty"`
		Schema      *model `json:"schema,omitempty"` // of a body
		Type        string `json:"type,omitempty"`   // of all others
	}
	responseV2 struct {
		Description string `json:"description"`
		Schema      *model `json:"schema,omitempty"`
	}
)

func (s *snapshot) docV2() *docV2 {
	c := s.catalog(v2)
	doc := &docV2{
		Swagger: "2.0", Info: info{"Kubernetes", s.about}, Paths: map[string]*pathV2{},
		Security: []map[string][]string{{"BearerToken": {}}}, SecurityDefinitions: bearer,
	}
	add := func(o *operation) {
		p := doc.Paths[o.path]
		if p == nil {
			p = &pathV2{}
			for _, pp := range pathParameters(o) {
				p.Parameters = append(p.Parameters, parameterV2{Description: pp.Description, In: pp.In, Name: pp.Name, Required: pp.Required, Type: pp.Schema.Type})
			}
			doc.Paths[o.path] = p
		}
		*p.at(o.method) = c.operationV2(o)
	}
	for i := range s.groups {
		root := s.groups[i].resources()
		add(&root)
		for _, one := range s.groups[i].served {
			c.object(one.gvk())
			for _, o := range operations(one) {
				add(&o)
			}
		}
	}
	doc.Definitions = c.byName
	s.addRemotes(doc)
	return doc
}

func (s *snapshot) jsonV2() []byte { return marshal(s.docV2()) }

func (p *pathV2) at(method string) **operationV2 {
	switch method {
	case "put":
		return &p.Put
	case "post":
		return &p.Post
	case "delete":
		return &p.Delete
	case "head":
		return &p.Head
	case "options":
		return &p.Options
	case "patch":
		return &p.Patch
	}
	return &p.Get
}

func (c *catalog) operationV2(o *operation) *operationV2 {
	out := &operationV2{
		Consumes: []string{"*/*"}, Produces: c.produces(o), Schemes: []string{"https"},
		Description: describe(o), OperationID: o.id, Tags: []string{o.tag}, Action: o.action,
		GVK: o.kind(),
	}
	object := c.object(o.gvk)
	switch {
	case o.patch:
		out.Consumes = c.patches(o)
		out.Parameters = append(out.Parameters, parameterV2{In: "body", Name: "body", Required: true, Schema: c.ref(c.patchName())})
	case o.body && object != "":
		out.Parameters = append(out.Parameters, parameterV2{In: "body", Name: "body", Required: true, Schema: c.ref(object)})
	}
	if o.options {
		out.Parameters = append(out.Parameters, parameterV2{In: "body", Name: "body", Schema: c.ref(c.deleteOptions())})
	}
	for _, name := range o.query {
		out.Parameters = append(out.Parameters, parameterV2{In: "query", Name: name, Type: queryType(name)})
	}
	ok := responseV2{Description: "OK"}
	ok.Schema = c.answerModel(o)
	out.Responses = map[string]responseV2{"200": ok, "401": {Description: "Unauthorized"}}
	for code, text := range o.codes() {
		ok.Description = text
		out.Responses[code] = ok
	}
	return out
}
