package dynamic

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

// source keeps what the objects of some resource are compiled to, in the order
// of their names. A nil list is the common case: there are none.
type source[T any] struct {
	compile func(client.Object) T
	list    atomic.Pointer[[]T]

	mu    sync.Mutex
	cache map[types.UID]compiled[T] // guarded by mu
}

type compiled[T any] struct {
	version string
	value   T
}

// open makes the first list and follows the view from then on.
func (s *source[T]) open(view client.View) {
	s.build(view)
	view.Handle(func(_, _ client.Object) { s.build(view) })
}

// build makes the list anew, of what changed only.
func (s *source[T]) build(view client.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := view.List("")
	if len(objects) == 0 {
		s.cache = nil
		s.list.Store(nil)
		return
	}
	slices.SortFunc(objects, func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	cache, list := map[types.UID]compiled[T]{}, make([]T, 0, len(objects))
	for _, o := range objects {
		c, ok := s.cache[o.GetUID()]
		if !ok || c.version != o.GetResourceVersion() {
			c = compiled[T]{o.GetResourceVersion(), s.compile(o)}
		}
		cache[o.GetUID()] = c
		list = append(list, c.value)
	}
	s.cache = cache
	s.list.Store(&list)
}

// all are those that there are now.
func (s *source[T]) all() []T {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}
