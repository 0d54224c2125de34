package client

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// protobuf is asked for first; a server may answer with JSON.
const (
	protobuf = runtime.ContentTypeProtobuf
	accepted = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
)

// Remote is Interface over the network. Built-in kinds go as protobuf, others
// as JSON. It does not limit its own rate: the server does.
//
// Close ends its views.
type Remote struct {
	cfg  *rest.Config
	http *http.Client
	ctx  context.Context
	end  context.CancelFunc

	dynamic  dynamic.Interface
	metadata metadata.Interface
	plain    rest.Interface // for paths that are no resource

	mu    sync.Mutex
	typed map[schema.GroupVersion]rest.Interface // guarded by mu
	views map[viewKey]*remoteView                // guarded by mu
}

var _ Interface = (*Remote)(nil)

// NewRemote makes a client that talks to the server that cfg names, with the
// credentials in cfg. Of id, the user agent is used: who one is, the
// credentials say.
func NewRemote(cfg *rest.Config, id Identity) (*Remote, error) {
	cfg = rest.CopyConfig(cfg)
	if id.UserAgent != "" {
		cfg.UserAgent = id.UserAgent
	}
	cfg.QPS = -1
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	r := &Remote{cfg: cfg, http: httpClient, typed: map[schema.GroupVersion]rest.Interface{}, views: map[viewKey]*remoteView{}}
	if r.dynamic, err = dynamic.NewForConfigAndClient(cfg, httpClient); err != nil {
		return nil, err
	}
	if r.metadata, err = metadata.NewForConfigAndClient(cfg, httpClient); err != nil {
		return nil, err
	}
	if r.plain, err = r.restFor(schema.GroupVersion{Version: "v1"}); err != nil {
		return nil, err
	}
	r.ctx, r.end = context.WithCancel(context.Background())
	return r, nil
}

// Close ends the client's views and lets go of its connections.
func (r *Remote) Close() {
	r.end()
	r.http.CloseIdleConnections()
}

func (r *Remote) restFor(gv schema.GroupVersion) (rest.Interface, error) {
	cfg := rest.CopyConfig(r.cfg)
	cfg.GroupVersion = &gv
	cfg.APIPath = "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = theWire().codecs
	cfg.ContentType, cfg.AcceptContentTypes = protobuf, accepted
	return rest.RESTClientForConfigAndClient(cfg, r.http)
}

// forTyped is the client for a version of built-in kinds; nil when it is none.
func (r *Remote) forTyped(res Resource) (rest.Interface, error) {
	gv := res.GroupVersion()
	if !theWire().scheme.IsVersionRegistered(gv) {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.typed[gv]; c != nil {
		return c, nil
	}
	c, err := r.restFor(gv)
	if err == nil {
		r.typed[gv] = c
	}
	return c, err
}

// forObject is forTyped, but nil for an obj that is unstructured.
func (r *Remote) forObject(res Resource, obj Object) (rest.Interface, error) {
	if _, ok := obj.(*unstructured.Unstructured); ok {
		return nil, nil
	}
	return r.forTyped(res)
}

// forOther is the client for kinds that are not built in.
func (r *Remote) forOther(res Resource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return r.dynamic.Resource(res)
	}
	return r.dynamic.Resource(res).Namespace(namespace)
}

func answer(res rest.Result) (Object, error) {
	obj, err := res.Get()
	if err != nil {
		return nil, err
	}
	if _, ok := obj.(*metav1.Status); ok {
		return nil, nil // done, and nothing to show
	}
	o, ok := obj.(Object)
	if !ok {
		return nil, fmt.Errorf("client: the server answered with a %T, which has no metadata", obj)
	}
	return o, nil
}

// found keeps a nil *Unstructured from becoming an Object that is not nil.
func found(u *unstructured.Unstructured, err error) (Object, error) {
	if err != nil {
		return nil, err
	}
	return u, nil
}

func (r *Remote) Get(ctx context.Context, res Resource, namespace, name string) (Object, error) {
	c, err := r.forTyped(res)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return found(r.forOther(res, namespace).Get(ctx, name, metav1.GetOptions{}))
	}
	return answer(c.Get().NamespaceIfScoped(namespace, namespace != "").Resource(res.Resource).Name(name).Do(ctx))
}

func (r *Remote) List(ctx context.Context, res Resource, namespace string, opts metav1.ListOptions) ([]Object, string, error) {
	c, err := r.forTyped(res)
	if err != nil {
		return nil, "", err
	}
	var list runtime.Object
	if c == nil {
		list, err = r.forOther(res, namespace).List(ctx, opts)
	} else {
		list, err = c.Get().NamespaceIfScoped(namespace, namespace != "").Resource(res.Resource).
			VersionedParams(&opts, theWire().params).Do(ctx).Get()
	}
	if err != nil {
		return nil, "", err
	}
	return items(list)
}

// items takes a list apart. The objects do not keep each other in memory.
func items(list runtime.Object) ([]Object, string, error) {
	access, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", err
	}
	objs := make([]Object, 0, meta.LenList(list))
	err = meta.EachListItemWithAlloc(list, func(obj runtime.Object) error {
		o, ok := obj.(Object)
		if !ok {
			return fmt.Errorf("client: a list holds a %T, which has no metadata", obj)
		}
		objs = append(objs, o)
		return nil
	})
	return objs, access.GetResourceVersion(), err
}

func (r *Remote) Watch(ctx context.Context, res Resource, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	c, err := r.forTyped(res)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return r.forOther(res, namespace).Watch(ctx, opts)
	}
	opts.Watch = true
	return c.Get().NamespaceIfScoped(namespace, namespace != "").Resource(res.Resource).
		VersionedParams(&opts, theWire().params).Watch(ctx)
}

func (r *Remote) Create(ctx context.Context, res Resource, obj Object, sub ...string) (Object, error) {
	c, err := r.forObject(res, obj)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		u, err := toUnstructured(obj)
		if err != nil {
			return nil, err
		}
		return found(r.forOther(res, obj.GetNamespace()).Create(ctx, u, metav1.CreateOptions{}, sub...))
	}
	req := c.Post().NamespaceIfScoped(obj.GetNamespace(), obj.GetNamespace() != "").Resource(res.Resource)
	if len(sub) > 0 {
		req = req.Name(obj.GetName()).SubResource(sub...)
	}
	return answer(req.Body(obj).Do(ctx))
}

func (r *Remote) Update(ctx context.Context, res Resource, obj Object, sub ...string) (Object, error) {
	c, err := r.forObject(res, obj)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		u, err := toUnstructured(obj)
		if err != nil {
			return nil, err
		}
		return found(r.forOther(res, obj.GetNamespace()).Update(ctx, u, metav1.UpdateOptions{}, sub...))
	}
	return answer(c.Put().NamespaceIfScoped(obj.GetNamespace(), obj.GetNamespace() != "").Resource(res.Resource).
		Name(obj.GetName()).SubResource(sub...).Body(obj).Do(ctx))
}

func (r *Remote) Patch(ctx context.Context, res Resource, namespace, name string, pt types.PatchType, data []byte, sub ...string) (Object, error) {
	c, err := r.forTyped(res)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return found(r.forOther(res, namespace).Patch(ctx, name, pt, data, metav1.PatchOptions{}, sub...))
	}
	return answer(c.Patch(pt).NamespaceIfScoped(namespace, namespace != "").Resource(res.Resource).
		Name(name).SubResource(sub...).Body(data).Do(ctx))
}

func (r *Remote) Delete(ctx context.Context, res Resource, namespace, name string, opts metav1.DeleteOptions) error {
	c, err := r.forTyped(res)
	switch {
	case err != nil:
		return err
	case c == nil:
		return r.forOther(res, namespace).Delete(ctx, name, opts)
	}
	return c.Delete().NamespaceIfScoped(namespace, namespace != "").Resource(res.Resource).Name(name).Body(&opts).Do(ctx).Error()
}

func (r *Remote) DeleteCollection(ctx context.Context, res Resource, namespace string, del metav1.DeleteOptions, opts metav1.ListOptions) error {
	c, err := r.forTyped(res)
	switch {
	case err != nil:
		return err
	case c == nil:
		return r.forOther(res, namespace).DeleteCollection(ctx, del, opts)
	}
	return c.Delete().NamespaceIfScoped(namespace, namespace != "").Resource(res.Resource).
		VersionedParams(&opts, theWire().params).Body(&del).Do(ctx).Error()
}

func toUnstructured(obj Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(KindOf(obj))
	return u, nil
}
