package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Client is the client of a loop in this process: the path of any request but
// for the bytes. What it returns is shared and must not be changed.
func (s *Server) Client(id client.Identity) client.Interface {
	return &inProcess{s: s, id: id, user: &authn.User{Name: id.User, Groups: id.Groups}}
}

type inProcess struct {
	s    *Server
	id   client.Identity
	user *authn.User
}

var _ client.Interface = (*inProcess)(nil)

// do makes the call, authorizes and runs it, and keeps the books.
func (p *inProcess) do(ctx context.Context, res client.Resource, verb, namespace, name, sub string, f func(c *call) error) (err error) {
	sv := p.s.catalog().byGVR[res]
	if sv == nil {
		return errNotServed()
	}
	if !sv.namespaced {
		namespace = ""
	}
	c := &call{ctx: withUser(ctx, p.user), user: p.user, sv: sv, verb: verb, namespace: namespace, name: name, sub: sub, agent: p.id.UserAgent}
	start := time.Now()
	a := c.attributes()
	defer func() { p.s.account(p, c, a, start, err) }()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.s.authorize(c.ctx, a); err != nil {
		return err
	}
	if sub == "" && !sv.methods[verb] {
		return apierrors.NewMethodNotSupported(sv.gr, verb)
	}
	return f(c)
}

var methods = map[string]string{
	"get": http.MethodGet, "list": http.MethodGet, "watch": http.MethodGet, "create": http.MethodPost,
	"update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete, "deletecollection": http.MethodDelete,
}

// account writes metrics and the request log of a call in this process.
func (s *Server) account(p *inProcess, c *call, a *authz.Attributes, start time.Time, err error) {
	if s.metrics == nil && s.cfg.RequestLog == nil {
		return
	}
	code := http.StatusOK
	if err != nil {
		code = int(statusOf(err).Code)
	} else if c.verb == "create" {
		code = http.StatusCreated
	}
	took := time.Since(start)
	scope := "cluster"
	if c.name != "" {
		scope = "resource"
	} else if c.namespace != "" {
		scope = "namespace"
	}
	s.metrics.request(a, scope, code, c.dryRun, took)
	if s.cfg.RequestLog == nil {
		return
	}
	s.cfg.RequestLog(RequestRecord{
		Time: start, User: p.user.Name, UserAgent: p.id.UserAgent, Method: methods[c.verb], URI: uriOf(c),
		Verb: c.verb, Resource: resourceName(a), Namespace: c.namespace, Name: c.name,
		Code: code, Duration: took, InProcess: true,
	})
}

// uriOf is the path that the call would have over HTTP.
func uriOf(c *call) string {
	var b strings.Builder
	if g := c.sv.gvr.Group; g == "" {
		b.WriteString("/api/")
	} else {
		b.WriteString("/apis/" + g + "/")
	}
	b.WriteString(c.sv.gvr.Version)
	if c.namespace != "" {
		b.WriteString("/namespaces/" + c.namespace)
	}
	b.WriteString("/" + c.sv.gvr.Resource)
	if c.name != "" && c.verb != "create" || c.sub != "" {
		b.WriteString("/" + c.name)
	}
	if c.sub != "" {
		b.WriteString("/" + c.sub)
	}
	return b.String()
}

// object is an answer as the caller's version has it.
func (c *call) object(a answer) (client.Object, error) {
	if a.entry != nil {
		return c.sv.shown(a.entry.obj)
	}
	if obj, ok := a.obj.(client.Object); ok {
		return obj, nil
	}
	return nil, nil // a Status: it is done, and there is nothing to show
}

// shown is an object of the hub version as the callers of this version see it.
func (sv *served) shown(obj kinds.Object) (client.Object, error) {
	out, err := sv.fromHub(obj)
	if d, ok := out.(kinds.Dynamic); ok && err == nil {
		return d.Unstructured(), nil
	}
	return out, err
}

// own makes a copy of what a caller hands over, in the type that is due.
func own(obj client.Object, v viewType) (kinds.Object, error) {
	if obj == nil {
		return nil, apierrors.NewBadRequest("no object")
	}
	want := v.newObject()
	if reflect.TypeOf(obj) == reflect.TypeOf(want) {
		out := obj.DeepCopyObject().(kinds.Object)
		out.GetObjectKind().SetGroupVersionKind(v.gvk)
		return out, nil
	}
	u, ok := obj.(interface{ UnstructuredContent() map[string]any })
	if !ok {
		return nil, apierrors.NewBadRequest("cannot handle a " + reflect.TypeOf(obj).String() + " as a " + v.gvk.Kind)
	}
	if d, ok := want.(kinds.Dynamic); ok {
		data, err := marshalJSON(u.UnstructuredContent())
		if err == nil {
			_, err = d.DecodeJSON(data, false)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		d.GetObjectKind().SetGroupVersionKind(v.gvk)
		return d, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), want); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	want.GetObjectKind().SetGroupVersionKind(v.gvk)
	return want, nil
}

func (sv *served) self() viewType {
	return viewType{gvk: sv.gvk, newObject: sv.version.New, same: true}
}

func (p *inProcess) Get(ctx context.Context, res client.Resource, namespace, name string) (out client.Object, err error) {
	if r := p.elsewhere(res); r != nil {
		return r.Get(ctx, res, namespace, name)
	}
	err = p.do(ctx, res, "get", namespace, name, "", func(c *call) error {
		a, err := p.s.get(c)
		if err == nil {
			out, err = c.object(a)
		}
		return err
	})
	return out, err
}

func (p *inProcess) List(ctx context.Context, res client.Resource, namespace string, opts metav1.ListOptions) (out []client.Object, rv string, err error) {
	if r := p.elsewhere(res); r != nil {
		return r.List(ctx, res, namespace, opts)
	}
	err = p.do(ctx, res, "list", namespace, pinnedName(opts.FieldSelector), "", func(c *call) error {
		found, _, err := p.s.list(c, &opts)
		if err != nil {
			return err
		}
		rv = formatRevision(found.revision)
		out = make([]client.Object, 0, len(found.records))
		for _, rec := range found.records {
			e, err := p.s.entryOf(c.sv.resource, rec)
			if err != nil {
				return err
			}
			obj, err := c.sv.shown(e.obj)
			if err != nil {
				return err
			}
			out = append(out, obj)
		}
		return nil
	})
	return out, rv, err
}

func (p *inProcess) Create(ctx context.Context, res client.Resource, obj client.Object, subresource ...string) (out client.Object, err error) {
	if r := p.elsewhere(res); r != nil {
		return r.Create(ctx, res, obj, subresource...)
	}
	sub := strings.Join(subresource, "/")
	name := ""
	if sub != "" {
		name = obj.GetName()
	}
	err = p.do(ctx, res, "create", obj.GetNamespace(), name, sub, func(c *call) error {
		key := c.sv.gr.String()
		if sub != "" {
			key += "/" + sub
		}
		if h := p.s.cfg.Subresources[key]; h != nil {
			out, err = p.throughHandler(c, h, obj)
			return err
		}
		var a answer
		if sub != "" {
			post := posts[key]
			if post == nil {
				return apierrors.NewMethodNotSupported(c.sv.gr, "create")
			}
			mine, err := own(obj, viewType{gvk: post.gvk, newObject: post.newObject})
			if err != nil {
				return err
			}
			a, err = post.serve(p.s, c, mine)
			if err != nil {
				return err
			}
		} else {
			mine, err := own(obj, c.sv.self())
			if err != nil {
				return err
			}
			if a, err = p.s.create(c, mine); err != nil {
				return err
			}
		}
		out, err = c.object(a)
		return err
	})
	return out, err
}

// throughHandler asks one of Config.Subresources, which speak HTTP.
func (p *inProcess) throughHandler(c *call, h SubresourceHandler, obj client.Object) (client.Object, error) {
	data, err := marshalJSON(obj)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPost, uriOf(c), io.NopCloser(bytes.NewReader(data)))
	if err != nil {
		return nil, err
	}
	r.ContentLength = int64(len(data))
	r.RequestURI = r.URL.RequestURI()
	r.Header.Set("Content-Type", typeJSON)
	r.Header.Set("Accept", typeJSON)
	r.Header.Set("User-Agent", p.id.UserAgent)
	w := httptest.NewRecorder()
	h(w, r, c.attributes())
	if w.Code >= 300 {
		status := metav1.Status{}
		if err := unmarshalJSON(w.Body.Bytes(), &status); err != nil || status.Kind != "Status" {
			return nil, apierrors.NewGenericServerResponse(w.Code, "POST", c.sv.gr, c.name, w.Body.String(), 0, true)
		}
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	out := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	if err := unmarshalJSON(w.Body.Bytes(), out); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return out, nil
}

func (p *inProcess) Update(ctx context.Context, res client.Resource, obj client.Object, subresource ...string) (out client.Object, err error) {
	if r := p.elsewhere(res); r != nil {
		return r.Update(ctx, res, obj, subresource...)
	}
	sub := strings.Join(subresource, "/")
	err = p.do(ctx, res, "update", obj.GetNamespace(), obj.GetName(), sub, func(c *call) error {
		v := c.sv.self()
		if sub != "" {
			ks := c.sv.kind.Subresource(c.sv.version, sub)
			if ks == nil {
				return errNotServed()
			}
			v = c.sv.view(ks)
		}
		mine, err := own(obj, v)
		if err != nil {
			return err
		}
		var a answer
		if sub == "" {
			a, err = p.s.update(c, mine)
		} else {
			a, err = p.s.updateView(c, mine)
		}
		if err == nil {
			out, err = c.object(a)
		}
		return err
	})
	return out, err
}

func (p *inProcess) Patch(ctx context.Context, res client.Resource, namespace, name string, pt types.PatchType, data []byte, subresource ...string) (out client.Object, err error) {
	if r := p.elsewhere(res); r != nil {
		return r.Patch(ctx, res, namespace, name, pt, data, subresource...)
	}
	sub := strings.Join(subresource, "/")
	err = p.do(ctx, res, "patch", namespace, name, sub, func(c *call) error {
		var a answer
		if sub == "" {
			a, err = p.s.patch(c, pt, data)
		} else if c.sv.kind.Subresource(c.sv.version, sub) == nil {
			return errNotServed()
		} else {
			a, err = p.s.patchView(c, pt, data)
		}
		if err == nil {
			out, err = c.object(a)
		}
		return err
	})
	return out, err
}

func (p *inProcess) Delete(ctx context.Context, res client.Resource, namespace, name string, opts metav1.DeleteOptions) error {
	if r := p.elsewhere(res); r != nil {
		return r.Delete(ctx, res, namespace, name, opts)
	}
	return p.do(ctx, res, "delete", namespace, name, "", func(c *call) error {
		_, err := p.s.delete(c, &opts)
		return err
	})
}

func (p *inProcess) DeleteCollection(ctx context.Context, res client.Resource, namespace string, del metav1.DeleteOptions, opts metav1.ListOptions) error {
	if r := p.elsewhere(res); r != nil {
		return r.DeleteCollection(ctx, res, namespace, del, opts)
	}
	return p.do(ctx, res, "deletecollection", namespace, "", "", func(c *call) error {
		_, err := p.s.deleteCollection(c, &del, &opts)
		return err
	})
}

func (p *inProcess) Watch(ctx context.Context, res client.Resource, namespace string, opts metav1.ListOptions) (out watch.Interface, err error) {
	if r := p.elsewhere(res); r != nil {
		return r.Watch(ctx, res, namespace, opts)
	}
	err = p.do(ctx, res, "watch", namespace, pinnedName(opts.FieldSelector), "", func(c *call) error {
		ctx, cancel := context.WithCancel(c.ctx)
		st, err := p.s.openWatch(c, &opts, cancel)
		if err != nil {
			cancel()
			return err
		}
		w := &channelWatch{ctx: ctx, cancel: cancel, sv: c.sv, s: p.s, ch: make(chan watch.Event)}
		go func() {
			defer close(w.ch)
			defer st.close()
			defer cancel()
			st.run(ctx, w)
		}()
		out = w
		return nil
	})
	return out, err
}

func (p *inProcess) Resources(ctx context.Context) ([]client.ResourceInfo, error) {
	resources := p.s.catalog().resources
	out := make([]client.ResourceInfo, 0, len(resources))
	for _, res := range resources {
		preferred := res.preferred()
		if preferred == nil {
			continue
		}
		info := client.ResourceInfo{Resource: preferred.gvr, Kind: preferred.gvk.Kind, Namespaced: res.namespaced}
		for _, verb := range [...]string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} {
			if res.methods[verb] {
				info.Verbs = append(info.Verbs, verb)
			}
		}
		out = append(out, info)
	}
	if p.s.cfg.Foreign != nil {
		out = append(out, p.s.cfg.Foreign()...)
	}
	return out, ctx.Err()
}

var errNoReader = errors.New("apiserver: the watch was stopped")
