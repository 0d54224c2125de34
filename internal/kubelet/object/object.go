// Package object gives the kubelet the config maps, secrets and trust bundles
// its pods refer to, and only those: each is watched while a pod holds it.
//
//	Hold(owner, refs) --> one watcher per reference --> Get, List, and Changed(owner)
//
// Concurrency: a Cache may be used from many goroutines. Each reference that is
// held has one goroutine.
//
// Failure: Get answers with what is known; when nothing is known yet it asks
// the server, so an error is the server's (NotFound and so on). A broken watch
// is made again after a second.
package object

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/client"
)

// The resources that are held.
var (
	ConfigMaps   = v1.SchemeGroupVersion.WithResource("configmaps")
	Secrets      = v1.SchemeGroupVersion.WithResource("secrets")
	TrustBundles = certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles")
)

// Ref names one object, or all that a field selector matches.
type Ref struct {
	Resource        client.Resource
	Namespace, Name string
	Fields          string // when Name is empty
}

func (r Ref) options() metav1.ListOptions {
	if r.Name == "" {
		return metav1.ListOptions{FieldSelector: r.Fields}
	}
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", r.Name).String()}
}

// Cache holds objects.
type Cache struct {
	client  client.Interface
	changed func(owner types.UID)

	mu     sync.Mutex
	items  map[Ref]*item              // guarded by mu
	owners map[types.UID]map[Ref]bool // guarded by mu
}

type item struct {
	owners  map[types.UID]bool
	cancel  context.CancelFunc
	known   bool                     // objects are what the server has
	objects map[string]client.Object // by name
}

// New makes a Cache. changed is told the owner of each object that changes; it
// must be quick.
func New(c client.Interface, changed func(owner types.UID)) *Cache {
	return &Cache{client: c, changed: changed, items: map[Ref]*item{}, owners: map[types.UID]map[Ref]bool{}}
}

// Hold makes refs the objects that an owner holds, no more and no less. ctx is
// the life of the whole cache.
func (c *Cache) Hold(ctx context.Context, owner types.UID, refs []Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := make(map[Ref]bool, len(refs))
	for _, r := range refs {
		want[r] = true
		it := c.items[r]
		if it == nil {
			wctx, cancel := context.WithCancel(ctx)
			it = &item{owners: map[types.UID]bool{}, cancel: cancel}
			c.items[r] = it
			go c.follow(wctx, r, it)
		}
		it.owners[owner] = true
	}
	for r := range c.owners[owner] {
		if want[r] {
			continue
		}
		it := c.items[r]
		delete(it.owners, owner)
		if len(it.owners) == 0 {
			it.cancel()
			delete(c.items, r)
		}
	}
	if len(want) == 0 {
		delete(c.owners, owner)
	} else {
		c.owners[owner] = want
	}
}

// Get is the object, or an error of the API server's.
func (c *Cache) Get(ctx context.Context, r Ref) (client.Object, error) {
	c.mu.Lock()
	if it := c.items[r]; it != nil && it.known {
		defer c.mu.Unlock()
		o := it.objects[r.Name]
		if o == nil {
			return nil, apierrors.NewNotFound(r.Resource.GroupResource(), r.Name)
		}
		return o, nil
	}
	c.mu.Unlock()
	return c.client.Get(ctx, r.Resource, r.Namespace, r.Name)
}

// List is all that a reference matches, by their names.
func (c *Cache) List(ctx context.Context, r Ref) ([]client.Object, error) {
	c.mu.Lock()
	if it := c.items[r]; it != nil && it.known {
		defer c.mu.Unlock()
		return slices.SortedFunc(maps.Values(it.objects), byName), nil
	}
	c.mu.Unlock()
	list, _, err := c.client.List(ctx, r.Resource, r.Namespace, r.options())
	return slices.SortedFunc(slices.Values(list), byName), err
}

func byName(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) }

// ConfigMap is a config map.
func (c *Cache) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	o, err := c.Get(ctx, Ref{Resource: ConfigMaps, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return o.(*v1.ConfigMap), nil
}

// Secret is a secret.
func (c *Cache) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	o, err := c.Get(ctx, Ref{Resource: Secrets, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return o.(*v1.Secret), nil
}

// TrustBundle is a trust bundle.
func (c *Cache) TrustBundle(ctx context.Context, name string) (*certificatesv1.ClusterTrustBundle, error) {
	o, err := c.Get(ctx, Ref{Resource: TrustBundles, Name: name})
	if err != nil {
		return nil, err
	}
	return o.(*certificatesv1.ClusterTrustBundle), nil
}

// TrustBundlesOf names the trust bundles of a signer.
func TrustBundlesOf(signer string) Ref {
	return Ref{Resource: TrustBundles, Fields: fields.OneTermEqualSelector("spec.signerName", signer).String()}
}

// TrustBundles are those of a signer, by their names.
func (c *Cache) TrustBundles(ctx context.Context, signer string) ([]*certificatesv1.ClusterTrustBundle, error) {
	list, err := c.List(ctx, TrustBundlesOf(signer))
	if err != nil {
		return nil, err
	}
	out := make([]*certificatesv1.ClusterTrustBundle, len(list))
	for i, o := range list {
		out[i] = o.(*certificatesv1.ClusterTrustBundle)
	}
	return out, nil
}

const again = time.Second // after a watch that broke

// follow keeps what a reference names known until ctx ends.
func (c *Cache) follow(ctx context.Context, r Ref, it *item) {
	for ctx.Err() == nil {
		c.once(ctx, r, it)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

func (c *Cache) once(ctx context.Context, r Ref, it *item) {
	opts := r.options()
	list, rv, err := c.client.List(ctx, r.Resource, r.Namespace, opts)
	if err != nil {
		return
	}
	c.replace(it, list)
	opts.ResourceVersion = rv
	opts.AllowWatchBookmarks = true
	w, err := c.client.Watch(ctx, r.Resource, r.Namespace, opts)
	if err != nil {
		return
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.ResultChan():
			if !ok {
				return
			}
			switch e.Type {
			case watch.Added, watch.Modified:
				c.change(it, e.Object.(client.Object), false)
			case watch.Deleted:
				c.change(it, e.Object.(client.Object), true)
			case watch.Error:
				return
			}
		}
	}
}

// replace takes over all that the server has.
func (c *Cache) replace(it *item, list []client.Object) {
	objects := make(map[string]client.Object, len(list))
	for _, o := range list {
		objects[o.GetName()] = o
	}
	c.update(it, func() bool {
		news := !it.known || !maps.EqualFunc(it.objects, objects, same)
		it.known, it.objects = true, objects
		return news
	})
}

// change takes over one object.
func (c *Cache) change(it *item, o client.Object, gone bool) {
	c.update(it, func() bool {
		was := it.objects[o.GetName()]
		if gone {
			delete(it.objects, o.GetName())
			return was != nil
		}
		it.objects[o.GetName()] = o
		return was == nil || !same(was, o)
	})
}

// update changes an item and tells its owners when that is news.
func (c *Cache) update(it *item, change func() (news bool)) {
	c.mu.Lock()
	var owners []types.UID
	if change() {
		owners = slices.Collect(maps.Keys(it.owners))
	}
	c.mu.Unlock()
	for _, o := range owners {
		c.changed(o)
	}
}

func same(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}
