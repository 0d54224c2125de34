package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		Head       *operationV3  `json:"head,omitempty"`
		Options    *operationV3  `json:"options,omitempty"`
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
		Action      string                `json:"x-kubernetes-action,omitempty"`
		GVK         *gvk                  `json:"x-kubernetes-group-version-kind,omitempty"`
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
		Required bool                 `json:"required,omitempty"`
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
	mediaTypes  = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"}
	streamTypes = []string{"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor-seq"}
	patchTypes  = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/apply-patch+cbor"}
)

// produces are the media types of an operation's answers.
func (c *catalog) produces(o *operation) []string {
	types := mediaTypes
	switch o.answer {
	case answerList, answerEvents:
		types = slices.Concat(mediaTypes, streamTypes)
	case answerText:
		if o.action == "connect" {
			return []string{"*/*"}
		}
		return append([]string{"text/plain"}, mediaTypes...)
	}
	if _, ok := c.custom[o.gvk]; ok { // which have no protobuf form
		types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return strings.Contains(t, "protobuf") })
	}
	return types
}

// patches are the media types of an operation's patches.
func (c *catalog) patches(o *operation) []string {
	if _, ok := c.custom[o.gvk]; ok {
		return slices.DeleteFunc(slices.Clone(patchTypes), func(t string) bool { return strings.Contains(t, "strategic") })
	}
	return patchTypes
}

// codes are those of an operation's answers besides 200 and 401.
func (o *operation) codes() map[string]string {
	out := map[string]string{}
	if o.body || o.patch {
		out["201"] = "Created"
	}
	if o.action == "post" || o.action == "delete" {
		out["202"] = "Accepted"
	}
	return out
}

var bearer = map[string]securityScheme{"BearerToken": {Description: "Bearer Token authentication", In: "header", Name: "authorization", Type: "apiKey"}}

func (s *snapshot) jsonV3(g *groupVersion) []byte {
	c := s.catalog(v3)
	doc := docV3{
		OpenAPI:  "3.0.0",
		Info:     info{"Kubernetes", s.about},
		Paths:    map[string]*pathV3{},
		Security: []map[string][]string{{"BearerToken": {}}},
	}
	add := func(o *operation) {
		p := doc.Paths[o.path]
		if p == nil {
			p = &pathV3{Parameters: pathParameters(o)}
			doc.Paths[o.path] = p
		}
		*p.at(o.method) = c.operationV3(o)
	}
	root := g.resources()
	add(&root)
	for _, one := range g.served {
		c.object(one.gvk())
		for _, o := range operations(one) {
			add(&o)
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
	case "head":
		return &p.Head
	case "options":
		return &p.Options
	case "patch":
		return &p.Patch
	}
	return &p.Get
}

// pathParameters are those that all operations of a path have: what is in the
// path itself, and pretty where it is an object that is read.
func pathParameters(o *operation) (out []parameterV3) {
	for _, name := range []string{"name", "namespace", "path"} {
		if strings.Contains(o.path, "{"+name+"}") {
			out = append(out, parameterV3{In: "path", Name: name, Required: true, Schema: parameter("string"), Description: pathDescriptions[name]})
		}
	}
	for _, name := range o.shared {
		out = append(out, parameterV3{In: "query", Name: name, Schema: parameter(queryType(name))})
	}
	if o.action == "" || o.action == "connect" {
		return out
	}
	return append(out, parameterV3{In: "query", Name: "pretty", Schema: parameter("string")})
}

func parameter(kind string) *model { return &model{Type: kind, UniqueItems: true} }

var pathDescriptions = map[string]string{"name": "name of the object", "namespace": "namespace of the object", "path": "path to the resource"}

func (c *catalog) operationV3(o *operation) *operationV3 {
	out := &operationV3{
		Description: describe(o), OperationID: o.id, Tags: []string{o.tag}, Action: o.action,
		GVK: o.kind(),
	}
	for _, name := range o.query {
		out.Parameters = append(out.Parameters, parameterV3{In: "query", Name: name, Schema: parameter(queryType(name))})
	}
	object := c.object(o.gvk)
	switch {
	case o.patch:
		out.RequestBody = &bodyV3{Content: content(c.patches(o), c.ref(c.patchName())), Required: true}
	case o.options:
		out.RequestBody = &bodyV3{Content: content([]string{"*/*"}, c.ref(c.deleteOptions()))}
	case o.body && object != "":
		out.RequestBody = &bodyV3{Content: content([]string{"*/*"}, c.ref(object)), Required: true}
	}
	ok := responseV3{Description: "OK"}
	if m := c.answerModel(o); m != nil {
		ok.Content = content(c.produces(o), m)
	}
	out.Responses = map[string]responseV3{"200": ok, "401": {Description: "Unauthorized"}}
	for code, text := range o.codes() {
		ok.Description = text
		out.Responses[code] = ok
	}
	return out
}

// kind is what an operation is about; nil when that is no kind.
func (o *operation) kind() *gvk {
	if o.gvk.Empty() {
		return nil
	}
	return &gvk{o.gvk.Group, o.gvk.Kind, o.gvk.Version}
}

// deleteOptions adds the model of a deletion's options.
func (c *catalog) deleteOptions() string {
	return c.kind(&metav1.DeleteOptions{}, schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"})
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
	switch o.answer {
	case answerResources:
		return "get available resources"
	case answerGroup:
		return "get information of a group"
	case answerVersions:
		return "get available API versions"
	case answerEvents:
		return "watch changes to an object of kind " + o.gvk.Kind + ". deprecated: use the 'watch' parameter with a list operation instead."
	}
	verb := map[string]string{
		"connect": "connect " + strings.ToUpper(o.method) + " requests by",
		"list":    "list or watch objects of kind", "get": "read the specified", "post": "create a", "put": "replace the specified",
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
	for i := range s.remotes {
		if r := &s.remotes[i]; r.V3 != nil {
			paths[r.path()] = entry{"/openapi/v3/" + r.path() + "?hash=" + r.Hash}
		}
	}
	return marshal(map[string]any{"paths": paths})
}

// generation counts the changes of what this package makes of the same types.
// It is part of every document's hash.
const generation = 2

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
		if one.version.Schema != nil {
			fmt.Fprintln(h, k.ListKind, one.version.Schema.Hash())
		}
		names := make([]string, 0, len(k.Subresources))
		for name, sub := range k.Subresources {
			names = append(names, fmt.Sprint(name, sub.Verbs, sub.GroupVersionKind))
		}
		slices.Sort(names)
		fmt.Fprintln(h, names)
	}
	return strings.ToUpper(hex.EncodeToString(h.Sum(nil)))
}
