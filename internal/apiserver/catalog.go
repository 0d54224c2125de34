package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/intern"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// catalog is what the server serves at one moment. It is never changed: a
// custom kind that comes, changes or goes makes a new one, so that requests
// read it without a lock. A request keeps to the catalog that it found its
// resource in.
type catalog struct {
	version    uint64 // counts the catalogs
	resources  []*resource
	byGVR      map[schema.GroupVersionResource]*served
	byPath     map[string]*served // "apps/v1/deployments"
	byPrefix   map[string]*resource
	byName     map[schema.GroupResource]*resource
	namespaces *resource // nil when not served
	pods       *resource // nil when not served
	parts      *intern.Table
}

// builtin tells the groups that have kinds which no user has defined, whatever
// users have put there as well.
func (c *catalog) builtin(group string) bool {
	for _, res := range c.resources {
		for i := range res.kind.Versions {
			if res.kind.Versions[i].GroupVersion.Group == group && !res.custom() {
				return true
			}
		}
	}
	return false
}

func newCatalog(list []*kinds.Kind) (*catalog, error) {
	c := &catalog{
		byGVR: map[schema.GroupVersionResource]*served{}, byPath: map[string]*served{},
		byPrefix: map[string]*resource{}, byName: map[schema.GroupResource]*resource{},
		parts: intern.New(),
	}
	for _, k := range list {
		if err := c.add(newResource(k)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// clone is a catalog that may still be changed.
func (c *catalog) clone() *catalog {
	out := *c
	out.version++
	out.resources = slices.Clone(c.resources)
	out.byGVR, out.byPath = maps.Clone(c.byGVR), maps.Clone(c.byPath)
	out.byPrefix, out.byName = maps.Clone(c.byPrefix), maps.Clone(c.byName)
	return &out
}

func (c *catalog) add(res *resource) error {
	k := res.kind
	if len(k.Versions) == 0 || k.Hub < 0 || k.Hub >= len(k.Versions) {
		return fmt.Errorf("apiserver: kind %s has no hub version", k.Kind)
	}
	res.parts = c.parts
	if res.isNamespaces {
		c.namespaces = res
	}
	if res.isPods {
		c.pods = res
	}
	for _, sv := range res.served {
		if c.byGVR[sv.gvr] != nil {
			return fmt.Errorf("apiserver: %s is served twice", sv.gvr)
		}
		// In process a version that nobody can ask for is there as well:
		// objects of a definition that serves none have to be deleted.
		c.byGVR[sv.gvr] = sv
		if !sv.version.Unserved {
			c.byPath[sv.path()] = sv
		}
	}
	if k.StoragePrefix != "" {
		if c.byPrefix[k.StoragePrefix] != nil {
			return fmt.Errorf("apiserver: two kinds are stored at %s", k.StoragePrefix)
		}
		c.byPrefix[k.StoragePrefix] = res
	}
	c.resources = append(c.resources, res)
	c.byName[res.gr] = res
	return nil
}

func (c *catalog) remove(res *resource) {
	for _, sv := range res.served {
		delete(c.byGVR, sv.gvr)
		delete(c.byPath, sv.path())
	}
	delete(c.byPrefix, res.kind.StoragePrefix)
	delete(c.byName, res.gr)
	c.resources = slices.DeleteFunc(c.resources, func(r *resource) bool { return r == res })
}

// catalog is what is served now.
func (s *Server) catalog() *catalog { return s.current.Load() }

// Kinds lists what is served now, and CatalogVersion counts its changes: it
// has moved when Kinds returns something else. The kinds must not be changed.
func (s *Server) Kinds() []*kinds.Kind {
	resources := s.catalog().resources
	out := make([]*kinds.Kind, len(resources))
	for i, res := range resources {
		out[i] = res.kind
	}
	return out
}

// CatalogVersion counts the changes of what Kinds returns.
func (s *Server) CatalogVersion() uint64 { return s.catalog().version }

// Serve begins to serve a kind, in place of one of the same name if there is
// one that Serve brought. Watches of that one end, as their clients may now
// have to be told of objects in another form; views follow.
func (s *Server) Serve(k *kinds.Kind) error {
	return s.recatalog(func(c *catalog) (old, now *resource, err error) {
		if old = c.byName[k.Resource]; old != nil {
			if !old.dynamic {
				return nil, nil, fmt.Errorf("apiserver: %s is built in", k.Resource)
			}
			c.remove(old)
		}
		now = newResource(k)
		now.dynamic = true
		return old, now, c.add(now)
	})
}

// Close lets nobody create objects of what Serve brought.
func (s *Server) Close(name schema.GroupResource) {
	if res := s.catalog().byName[name]; res != nil {
		res.closed.Store(true)
	}
}

var errClosed = errors.New("create not allowed while custom resource definition is terminating")

// Withdraw ends what Serve began. Its watches end, once they have told of all
// that was written before.
func (s *Server) Withdraw(name schema.GroupResource) {
	// The hub finds by the catalog whom a change concerns. An error says that
	// it tells nobody any more.
	_ = s.hub.reach(context.Background(), s.store.Revision())
	_ = s.recatalog(func(c *catalog) (old, now *resource, err error) {
		if old = c.byName[name]; old == nil || !old.dynamic {
			return nil, nil, fmt.Errorf("apiserver: %s is not there", name)
		}
		c.remove(old)
		return old, nil, nil
	})
}

// recatalog makes a new catalog. The hub changes over in the same moment, so
// that no view misses a change.
func (s *Server) recatalog(change func(*catalog) (old, now *resource, err error)) error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	next := s.catalog().clone()
	old, now, err := change(next)
	if err != nil {
		return err
	}
	s.current.Store(next)
	s.hub.succeedLocked(old, now)
	return nil
}
