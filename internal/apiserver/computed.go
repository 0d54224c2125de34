package apiserver

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

// Computed makes the objects of a kind that is not stored, whenever somebody
// asks for them. They are the server's from then on.
type Computed func(ctx context.Context) []kinds.Object

// computed tells of a resource whose objects are made when they are asked for.
func (res *resource) computed() bool { return res.kind.StoragePrefix == "" }

// compute makes those objects of a resource that are in a namespace and of a
// name, where one is given, as records that lie nowhere.
func (s *Server) compute(ctx context.Context, res *resource, f *filter) (out []*store.Record) {
	list := s.cfg.Computed[res.gr.String()]
	if list == nil {
		return nil
	}
	for _, obj := range list(ctx) {
		if !f.matchesKey(obj.GetNamespace(), obj.GetName()) || !f.matchesObject(res, obj) {
			continue
		}
		obj.GetObjectKind().SetGroupVersionKind(res.hub.gvk)
		rec := &store.Record{Key: res.key(obj.GetNamespace(), obj.GetName())}
		var boxed any = &entry{res: res, obj: obj}
		rec.Decoded.Store(&boxed)
		out = append(out, rec)
	}
	slices.SortFunc(out, func(a, b *store.Record) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// getComputed is get for what is not stored.
func (s *Server) getComputed(c *call) (answer, error) {
	found := s.compute(c.ctx, c.sv.resource, &filter{namespace: c.namespace, name: c.name, sv: c.sv})
	if len(found) == 0 {
		return answer{}, apierrors.NewNotFound(c.sv.gr, c.name)
	}
	e, err := s.entryOf(c.sv.resource, found[0])
	return answer{code: http.StatusOK, entry: e}, err
}
