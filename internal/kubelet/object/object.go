// Package object gives the kubelet the config maps and secrets its pods refer
// to, and only those: each is watched while a pod holds it.
//
//	Hold(owner, refs) --> one watcher per object --> Get, and Changed(owner)
//
// Concurrency: a Cache may be used from many goroutines. Each watched object
// has one goroutine.
//
// Failure: Get answers with what is known; when nothing is known yet it asks
// the server, so an error is the server's (NotFound and so on). A broken watch
// is made again after a second.
package object

import (
	"context"
	"sync"
	"time"

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
	ConfigMaps = v1.SchemeGroupVersion.WithResource("configmaps")
	Secrets    = v1.SchemeGroupVersion.WithResource("secrets")
)

// Ref names one object.
type Ref struct {
	Resource        client.Resource
	Namespace, Name string
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
	owners map[types.UID]bool
	cancel context.CancelFunc
	known  bool          // value is what the server has
	value  client.Object // nil: it does not exist
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
		if it.value == nil {
			return nil, apierrors.NewNotFound(r.Resource.GroupResource(), r.Name)
		}
		return it.value, nil
	}
	c.mu.Unlock()
	return c.client.Get(ctx, r.Resource, r.Namespace, r.Name)
}

// ConfigMap is a config map.
func (c *Cache) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	o, err := c.Get(ctx, Ref{ConfigMaps, namespace, name})
	if err != nil {
		return nil, err
	}
	return o.(*v1.ConfigMap), nil
}

// Secret is a secret.
func (c *Cache) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	o, err := c.Get(ctx, Ref{Secrets, namespace, name})
	if err != nil {
		return nil, err
	}
	return o.(*v1.Secret), nil
}

const again = time.Second // after a watch that broke

// follow keeps one object known until ctx ends.
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
	opts := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", r.Name).String()}
	list, rv, err := c.client.List(ctx, r.Resource, r.Namespace, opts)
	if err != nil {
		return
	}
	var now client.Object
	if len(list) > 0 {
		now = list[0]
	}
	c.set(it, now)
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
				c.set(it, e.Object.(client.Object))
			case watch.Deleted:
				c.set(it, nil)
			case watch.Error:
				return
			}
		}
	}
}

// set takes over what the server has and tells the owners when it is news.
func (c *Cache) set(it *item, value client.Object) {
	c.mu.Lock()
	news := it.known && version(it.value) != version(value) || !it.known
	it.known, it.value = true, value
	var owners []types.UID
	if news {
		for o := range it.owners {
			owners = append(owners, o)
		}
	}
	c.mu.Unlock()
	for _, o := range owners {
		c.changed(o)
	}
}

func version(o client.Object) string {
	if o == nil {
		return ""
	}
	return string(o.GetUID()) + "/" + o.GetResourceVersion()
}
