package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

type (
	docV3 struct {
		Components componentsV3          `json:"components"`
		Info       info                  `json:"info"`
		OpenAPI    string                `json:"openapi"`
		Paths      map[string]*pathV3    `json:"paths"`
		Security   []map[string][]string `json:"security"`
	}
	info struct {
		Title   string `json:"title"`
		Version string `json:"version"`
	}
	componentsV3 struct {
		Schemas         map[string]*model         `json:"schemas"`
		SecuritySchemes map[string]securityScheme `json:"securitySchemes"`
	}
	securityScheme struct {
		Description string `json:"description"`
		In          string `json:"in"`
		Name        string `json:"name"`
		Type        string `json:"type"`
	}
	pathV3 struct {
		Get        *operationV3  `json:"get,omitempty"`
		Put        *operationV3  `json:"put,omitempty"`
		Post       *operationV3  `json:"post,omitempty"`
		Delete     *operationV3  `json:"delete,omitempty"`
		Patch      *operationV3  `json:"patch,omitempty"`
		Parameters []parameterV3 `json:"parameters,omitempty"`
	}
	operationV3 struct {
		Description string                `json:"description"`
		OperationID string                `json:"operationId"`
		Parameters  []parameterV3         `json:"parameters,omitempty"`
		RequestBody *bodyV3               `json:"requestBody,omitempty"`
		Responses   map[string]responseV3 `json:"responses"`
		Tags        []string              `json:"tags"`
		Action      string                `json:"x-kubernetes-action"`
		GVK         gvk                   `json:"x-kubernetes-group-version-kind"`
	}
	parameterV3 struct {
		Description string `json:"description,omitempty"`
		In          string `json:"in"`
		Name        string `json:"name"`
		Required    bool   `json:"required,omitempty"`
		Schema      *model `json:"schema"`
	}
	bodyV3 struct {
		Content  map[string]contentV3 `json:"content"`
		Required bool                 `json:"required"`
	}
	responseV3 struct {
		Content     map[string]contentV3 `json:"content,omitempty"`
		Description string               `json:"description"`
	}
	contentV3 struct {
		Schema *model `json:"schema"`
	}
)

// mediaTypes are those of whole objects, and of patches.
var (
	mediaTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	patchTypes = []string{"application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"}
)

var bearer = map[string]securityScheme{"BearerToken": {Description: "Bearer Token authentication", In: "header", Name: "authorization", Type: "apiKey"}}

func (s *snapshot) jsonV3(g *groupVersion) []byte {
	c := s.catalog(v3)
	doc := docV3{
		OpenAPI:  "3.0.0",
		Info:     info{"Kubernetes", s.about},
		Paths:    map[string]*pathV3{},
		Security: []map[string][]string{{"BearerToken": {}}},
	}
	for _, one := range g.served {
		c.object(one.gvk())
		for _, o := range operations(one) {
			p := doc.Paths[o.path]
			if p == nil {
				p = &pathV3{Parameters: pathParameters(o.path)}
				doc.Paths[o.path] = p
			}
			*p.at(o.method) = c.operationV3(&o)
		}
	}
	doc.Components = componentsV3{Schemas: c.byName, SecuritySchemes: bearer}
	return marshal(doc)
}

func (p *pathV3) at(method string) **operationV3 {
	switch method {
	case "put":
		return &p.Put
	case "post":
		return &p.Post
	case "delete":
		return &p.Delete
	case "patch":
		return &p.Patch
	}
	return &p.Get
}

// pathParameters are those in the path itself, and pretty, which all have.
func pathParameters(path string) (out []parameterV3) {
	for _, name := range []string{"name", "namespace"} {
		if strings.Contains(path, "{"+name+"}") {
			out = append(out, parameterV3{In: "path", Name: name, Required: true, Schema: &model{Type: "string"}, Description: pathDescriptions[name]})
		}
	}
	return append(out, parameterV3{In: "query", Name: "pretty", Schema: &model{Type: "string"}})
}

var pathDescriptions = map[string]string{"name": "name of the object", "namespace": "namespace of the object"}

func (c *catalog) operationV3(o *operation) *operationV3 {
	out := &operationV3{
		Description: describe(o), OperationID: o.id, Tags: []string{o.tag}, Action: o.action,
		GVK: gvk{o.gvk.Group, o.gvk.Kind, o.gvk.Version},
	}
	for _, name := range o.query {
		out.Parameters = append(out.Parameters, parameterV3{In: "query", Name: name, Schema: &model{Type: queryType(name)}})
	}
	object := c.object(o.gvk)
	switch {
	case o.patch:
		out.RequestBody = &bodyV3{Content: content(patchTypes, c.ref(c.patchName())), Required: true}
	case o.body && object != "":
		out.RequestBody = &bodyV3{Content: content([]string{"*/*"}, c.ref(object)), Required: true}
	}
	ok := responseV3{Description: "OK"}
	if name := c.answerOf(o); name != "" {
		ok.Content = content(mediaTypes, c.ref(name))
	}
	out.Responses = map[string]responseV3{"200": ok, "401": {Description: "Unauthorized"}}
	if o.body || o.patch {
		ok.Description = "Created"
		out.Responses["201"] = ok
	}
	return out
}

// patchName adds the model of a patch: anything.
func (c *catalog) patchName() string {
	const name = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
	if c.byName[name] == nil {
		c.byName[name] = &model{Type: "object", Description: "Patch is provided to give a concrete name and type to the Kubernetes PATCH request body."}
	}
	return name
}

func content(types []string, m *model) map[string]contentV3 {
	out := make(map[string]contentV3, len(types))
	for _, t := range types {
		out[t] = contentV3{m}
	}
	return out
}

func describe(o *operation) string {
	verb := map[string]string{
		"list": "list or watch objects of kind", "get": "read the specified", "post": "create a", "put": "replace the specified",
		"patch": "partially update the specified", "delete": "delete a", "deletecollection": "delete collection of",
	}[o.action]
	return verb + " " + o.gvk.Kind
}

// index lists the documents with a hash of each: clients keep them by it.
func (s *snapshot) buildIndex() []byte {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	for i := range s.groups {
		g := &s.groups[i]
		paths[g.path()] = entry{"/openapi/v3/" + g.path() + "?hash=" + s.hash(g)}
	}
	return marshal(map[string]any{"paths": paths})
}

// generation counts the changes of what this package makes of the same types.
// It is part of every document's hash.
const generation = 1

// build identifies the Go types: documents follow from them. Hashing what a
// document follows from, and not its text, saves making all of them for the
// index.
var build = sync.OnceValue(func() string {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var b strings.Builder
	fmt.Fprintln(&b, bi.GoVersion, bi.Main.Version, bi.Main.Sum)
	for _, dep := range bi.Deps {
		if strings.HasPrefix(dep.Path, "k8s.io/") {
			fmt.Fprintln(&b, dep.Path, dep.Version, dep.Sum)
		}
	}
	for _, s := range bi.Settings {
		if strings.HasPrefix(s.Key, "vcs.") {
			fmt.Fprintln(&b, s.Key, s.Value)
		}
	}
	return b.String()
})

func (s *snapshot) hash(g *groupVersion) string {
	h := sha256.New()
	fmt.Fprintln(h, generation, s.about, build(), g.path())
	for _, one := range g.served {
		k := one.kind
		fmt.Fprintln(h, k.Resource.Resource, one.gvk(), k.Namespaced, k.NoVerbs)
		names := make([]string, 0, len(k.Subresources))
		for name, sub := range k.Subresources {
			names = append(names, fmt.Sprint(name, sub.Verbs, sub.GroupVersionKind))
		}
		slices.Sort(names)
		fmt.Fprintln(h, names)
	}
	return strings.ToUpper(hex.EncodeToString(h.Sum(nil)))
}
