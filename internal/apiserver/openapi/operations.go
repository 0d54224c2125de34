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
	options      bool     // takes options of a deletion
	answer       answer   // what comes back
	query        []string // parameters by name
	shared       []string // those of the whole path
	tag          string
}

type answer int

const (
	answerObject answer = iota
	answerList
	answerStatus
	answerEvents // a watch
	answerText   // whatever a stream or a log says
	answerResources
	answerGroup
	answerVersions
)

var (
	writeQuery  = []string{"dryRun", "fieldManager", "fieldValidation"}
	patchQuery  = []string{"dryRun", "fieldManager", "fieldValidation", "force"}
	deleteQuery = []string{"dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"}
	listQuery   = []string{"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch"}
	// manyQuery is of a deletion of many: a list's but what is for watches.
	manyQuery = []string{"continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds"}
)

// queryTypes are the types of parameters that are no strings.
var queryTypes = map[string]string{
	"force": "boolean", "sendInitialEvents": "boolean", "watch": "boolean", "pretty": "string",
	"allowWatchBookmarks": "boolean", "orphanDependents": "boolean",
	"gracePeriodSeconds": "integer", "limit": "integer", "timeoutSeconds": "integer",
	"stdin": "boolean", "stdout": "boolean", "stderr": "boolean", "tty": "boolean",
	"follow": "boolean", "previous": "boolean", "timestamps": "boolean", "insecureSkipTLSVerifyBackend": "boolean",
	"ports": "integer", "limitBytes": "integer", "sinceSeconds": "integer", "tailLines": "integer",
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
	b.watches(root, resource)
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
		verb = "delete"
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
			o.id = "delete" + b.camel + "Collection" + b.scope + o.gvk.Kind
			o.answer, o.options, o.query = answerStatus, true, slices.Concat(deleteQuery, manyQuery)
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
		b.add(b.op(path, "delete", "delete", ""), func(o *operation) {
			o.answer, o.options, o.query = answerStatus, true, deleteQuery
			if b.s.kind.ShowsDeleted() {
				o.answer = answerObject
			}
		})
	}
}

// watches are the paths by which one watched before lists could be watched.
func (b *builder) watches(root, resource string) {
	if !b.serves("watch") || !b.serves("list") {
		return
	}
	kind := b.s.gvk().Kind
	add := func(path, action, id string) {
		b.add(b.op(path, "get", action, ""), func(o *operation) {
			o.id, o.answer, o.shared = "watch"+b.camel+id, answerEvents, listQuery
		})
	}
	at := root + "watch/"
	if b.s.kind.Namespaced {
		add(at+resource, "watchlist", kind+"ListForAllNamespaces")
		at += "namespaces/{namespace}/"
	}
	add(at+resource, "watchlist", b.scope+kind+"List")
	if b.serves("get") {
		add(at+resource+"/{name}", "watch", b.scope+kind)
	}
}

// logQuery is what one may ask of a log.
var logQuery = []string{"container", "follow", "insecureSkipTLSVerifyBackend", "limitBytes", "previous", "sinceSeconds", "stream", "tailLines", "timestamps"}

// connectQuery is what one may ask of a stream or a proxy.
var connectQuery = map[string][]string{
	"PodExecOptions": {"command", "container", "stderr", "stdin", "stdout", "tty"}, "PodAttachOptions": {"container", "stderr", "stdin", "stdout", "tty"},
	"PodPortForwardOptions": {"ports"}, "PodProxyOptions": {"path"}, "ServiceProxyOptions": {"path"}, "NodeProxyOptions": {"path"},
}

// connect describes a stream, or a proxy and all that lies behind it.
func (b *builder) connect(path, name string, options schema.GroupVersionKind) {
	methods := []string{"get", "post"}
	if name == "proxy" {
		methods = []string{"delete", "get", "head", "options", "patch", "post", "put"}
	}
	add := func(path, suffix string) {
		for _, method := range methods {
			b.add(b.op(path, method, "connect", ""), func(o *operation) {
				o.id = "connect" + b.camel + upper(method) + b.scope + b.s.gvk().Kind + upper(name) + suffix
				o.gvk, o.answer, o.shared = options, answerText, connectQuery[options.Kind]
			})
		}
	}
	add(path, "")
	if name == "proxy" {
		add(path+"/{path}", "WithPath")
	}
}

// resources is what discovery says of a version, or of a group.
func (g *groupVersion) resources() operation {
	o := operation{method: "get", id: "get" + camel(g.GroupVersion) + "APIResources", tag: tag(g.GroupVersion), answer: answerResources}
	o.path = "/" + g.path() + "/"
	if g.Version == "" {
		o.tag = strings.TrimSuffix(o.tag, "_")
		if o.id, o.answer = "get"+camel(g.GroupVersion)+"APIGroup", answerGroup; g.Group == "" {
			o.id, o.answer = "getCoreAPIVersions", answerVersions
		}
	}
	return o
}

func (b *builder) subresources(path string) {
	names := make([]string, 0, len(b.s.kind.Subresources))
	for name := range b.s.kind.Subresources {
		if b.s.kind.Subresource(b.s.version, name) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		sub := b.s.kind.Subresources[name]
		if gvk := sub.GroupVersionKind; strings.HasSuffix(gvk.Kind, "Options") {
			b.connect(path+"/"+name, name, gvk)
			continue
		}
		if name == "log" {
			b.add(b.op(path+"/log", "get", "get", "log"), func(o *operation) { o.answer, o.shared = answerText, logQuery })
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
