package openapi

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Remote is what another server says of a version that it serves behind ours.
// Nobody changes it.
type Remote struct {
	GroupVersion schema.GroupVersion
	V3           []byte // its document of that version, nil if it has none
	Hash         string // of V3
	Source       string // where V3 was read, which changes when it does
	V2           []byte // its whole document, in JSON
}

func (r *Remote) path() string { return (&groupVersion{GroupVersion: r.GroupVersion}).path() }

// Merge adds what other servers say. list may change only with the version that
// New was given. To be called before the Handler serves.
func (h *Handler) Merge(list func() []Remote) { h.remotes = list }

// remote finds a document of another server.
func (s *snapshot) remote(path string) *Remote {
	for i := range s.remotes {
		if r := &s.remotes[i]; r.V3 != nil && r.path() == path {
			return r
		}
	}
	return nil
}

// v3Remote is v3 for the document of another server.
func (s *snapshot) v3Remote(r *Remote) document {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.docs[r.path()]
	if !ok {
		d = compress(r.V3)
		s.docs[r.path()] = d
	}
	return d
}

// addRemotes adds to a document in version 2 what others say of their versions.
// A model that both have is ours: the ones they share with us come from the
// same libraries.
func (s *snapshot) addRemotes(doc *docV2) {
	for i := range s.remotes {
		theirs := &docV2{}
		if json.Unmarshal(s.remotes[i].V2, theirs) != nil {
			continue // what cannot be read is not shown
		}
		root := "/" + s.remotes[i].path() + "/"
		for path, item := range theirs.Paths {
			if item == nil || !strings.HasPrefix(path, root) || doc.Paths[path] != nil {
				continue
			}
			item.clean()
			doc.Paths[path] = item
			item.refs(func(m *model) { adopt(doc, theirs, m) })
		}
	}
}

// adopt takes over a model with all that it refers to.
func adopt(doc, theirs *docV2, m *model) {
	if m == nil {
		return
	}
	if name, ok := strings.CutPrefix(m.Ref, v2.prefix); ok && doc.Definitions[name] == nil && theirs.Definitions[name] != nil {
		doc.Definitions[name] = theirs.Definitions[name]
		adopt(doc, theirs, theirs.Definitions[name])
	}
	adopt(doc, theirs, m.Items)
	adopt(doc, theirs, m.AdditionalProperties)
	adopt(doc, theirs, m.Not)
	for _, p := range m.Properties {
		adopt(doc, theirs, p)
	}
	for _, list := range [][]*model{m.AllOf, m.OneOf, m.AnyOf} {
		for _, one := range list {
			adopt(doc, theirs, one)
		}
	}
}

func (p *pathV2) operations() []*operationV2 {
	return []*operationV2{p.Get, p.Put, p.Post, p.Delete, p.Head, p.Options, p.Patch}
}

// clean drops parameters that are said elsewhere in the document.
func (p *pathV2) clean() {
	kept := func(list []parameterV2) (out []parameterV2) {
		for _, one := range list {
			if one.In != "" && (one.In != "body" || one.Schema != nil) {
				out = append(out, one)
			}
		}
		return out
	}
	p.Parameters = kept(p.Parameters)
	for _, o := range p.operations() {
		if o != nil {
			o.Parameters = kept(o.Parameters)
		}
	}
}

// refs calls f for the models that a path speaks of.
func (p *pathV2) refs(f func(*model)) {
	for _, o := range p.operations() {
		if o == nil {
			continue
		}
		for _, param := range o.Parameters {
			f(param.Schema)
		}
		for _, r := range o.Responses {
			f(r.Schema)
		}
	}
}
