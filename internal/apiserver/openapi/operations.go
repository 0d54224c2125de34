package openapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// operation is one verb at one path, in neither dialect yet.
type operation struct {
	path, method string
	id           string
	action       string // of the API: "patch", "list"
	gvk          schema.GroupVersionKind
	body         bool     // takes the object
	patch        bool     // takes a patch
	answer       answer   // what comes back
	query        []string // parameters by name
	tag          string
}

type answer int

const (
	answerObject answer = iota
	answerList
	answerStatus
)

var (
	writeQuery  = []string{"dryRun", "fieldManager", "fieldValidation"}
	patchQuery  = []string{"dryRun", "fieldManager", "fieldValidation", "force"}
	deleteQuery = []string{"dryRun", "gracePeriodSeconds", "propagationPolicy"}
	listQuery   = []string{"continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch"}
)

// queryTypes are the types of parameters that are no strings.
var queryTypes = map[string]string{
	"force": "boolean", "sendInitialEvents": "boolean", "watch": "boolean", "pretty": "string",
	"gracePeriodSeconds": "integer", "limit": "integer", "timeoutSeconds": "integer",
}

func queryType(name string) string {
	if t := queryTypes[name]; t != "" {
		return t
	}
	return "string"
}

// operations lists what is served of s.
func operations(s served) []operation {
	gv := s.version.GroupVersion
	root := "/apis/" + gv.Group + "/" + gv.Version + "/"
	if gv.Group == "" {
		root = "/api/" + gv.Version + "/"
	}
	resource := s.kind.Resource.Resource
	collection, scope := root+resource, ""
	if s.kind.Namespaced {
		collection, scope = root+"namespaces/{namespace}/"+resource, "Namespaced"
	}
	b := builder{s: s, camel: camel(gv), tag: tag(gv), scope: scope}
	if s.kind.Namespaced && b.serves("list") {
		all := builder{s: s, camel: b.camel, tag: b.tag}
		op := all.op(root+resource, "get", "list", "")
		op.id += "ForAllNamespaces"
		op.answer, op.query = answerList, listQuery
		b.ops = append(b.ops, op)
	}
	b.collection(collection)
	b.item(collection + "/{name}")
	b.subresources(collection + "/{name}")
	return b.ops
}

type builder struct {
	s                 served
	camel, tag, scope string
	ops               []operation
}

func (b *builder) serves(verb string) bool { return !slices.Contains(b.s.kind.NoVerbs, verb) }

func (b *builder) op(path, method, action, sub string) operation {
	verb := action
	switch action {
	case "get":
		verb = "read"
	case "put":
		verb = "replace"
	case "post":
		verb = "create"
	case "deletecollection":
		verb = "deleteCollection"
	}
	if sub != "" {
		sub = upper(sub)
	}
	return operation{
		path: path, method: method, action: action, gvk: b.s.gvk(), tag: b.tag,
		id: verb + b.camel + b.scope + b.s.gvk().Kind + sub,
	}
}

func (b *builder) add(op operation, change func(*operation)) {
	if change != nil {
		change(&op)
	}
	b.ops = append(b.ops, op)
}

func (b *builder) collection(path string) {
	if b.serves("list") {
		b.add(b.op(path, "get", "list", ""), func(o *operation) { o.answer, o.query = answerList, listQuery })
	}
	if b.serves("create") {
		b.add(b.op(path, "post", "post", ""), func(o *operation) { o.body, o.query = true, writeQuery })
	}
	if b.serves("deletecollection") {
		b.add(b.op(path, "delete", "deletecollection", ""), func(o *operation) {
			o.answer, o.query = answerStatus, append(slices.Clone(deleteQuery), listQuery[:6]...)
		})
	}
}

func (b *builder) item(path string) {
	if b.serves("get") {
		b.add(b.op(path, "get", "get", ""), nil)
	}
	if b.serves("update") {
		b.add(b.op(path, "put", "put", ""), func(o *operation) { o.body, o.query = true, writeQuery })
	}
	if b.serves("patch") {
		b.add(b.op(path, "patch", "patch", ""), func(o *operation) { o.patch, o.query = true, patchQuery })
	}
	if b.serves("delete") {
		b.add(b.op(path, "delete", "delete", ""), func(o *operation) { o.answer, o.query = answerStatus, deleteQuery })
	}
}

func (b *builder) subresources(path string) {
	names := make([]string, 0, len(b.s.kind.Subresources))
	for name := range b.s.kind.Subresources {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		sub := b.s.kind.Subresources[name]
		// A stream or a proxy has no object to describe.
		if gvk := sub.GroupVersionKind; !gvk.Empty() && strings.HasSuffix(gvk.Kind, "Options") || name == "log" {
			continue
		}
		for _, verb := range sub.Verbs {
			method, action := map[string]string{"get": "get", "update": "put", "patch": "patch", "create": "post"}[verb], verb
			if method == "" {
				continue
			}
			if verb == "update" || verb == "create" {
				action = method
			}
			b.add(b.op(path+"/"+name, method, action, name), func(o *operation) {
				if !sub.GroupVersionKind.Empty() {
					o.gvk = sub.GroupVersionKind
				}
				switch verb {
				case "update", "create":
					o.body, o.query = true, writeQuery
				case "patch":
					o.patch, o.query = true, patchQuery
				}
			})
		}
	}
}

// camel is how operation ids name a group version: AppsV1, RbacAuthorizationV1.
func camel(gv schema.GroupVersion) string {
	group := strings.TrimSuffix(gv.Group, ".k8s.io")
	if group == "" {
		group = "core"
	}
	var out strings.Builder
	for part := range strings.SplitSeq(group, ".") {
		out.WriteString(upper(part))
	}
	return out.String() + upper(gv.Version)
}

func tag(gv schema.GroupVersion) string {
	c := camel(schema.GroupVersion{Group: gv.Group})
	return strings.ToLower(c[:1]) + c[1:] + "_" + gv.Version
}

func upper(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
