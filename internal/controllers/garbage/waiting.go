package garbage

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/loop"
)

// waiting are the keys of objects whose owners cannot be followed yet, by the
// owners' kind. It is safe for use from many goroutines.
//
// Who adds a key then looks whether the kind has come meanwhile: it may have
// taken its keys just before.
type waiting struct {
	mu    sync.Mutex
	keys  map[schema.GroupKind]map[loop.Key]struct{} // guarded by mu
	kinds map[loop.Key][]schema.GroupKind            // guarded by mu: keys, the other way round
}

func newWaiting() *waiting {
	return &waiting{keys: map[schema.GroupKind]map[loop.Key]struct{}{}, kinds: map[loop.Key][]schema.GroupKind{}}
}

func (w *waiting) add(kind schema.GroupKind, key loop.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.kinds[key], kind) {
		return
	}
	if w.keys[kind] == nil {
		w.keys[kind] = map[loop.Key]struct{}{}
	}
	w.keys[kind][key] = struct{}{}
	w.kinds[key] = append(w.kinds[key], kind)
}

// take returns the keys that waited for a kind, which wait no more.
func (w *waiting) take(kind schema.GroupKind) (keys []loop.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.keys[kind] {
		keys = append(keys, key)
	}
	for _, key := range keys {
		w.forgetLocked(key)
	}
	return keys
}

// forget takes a key out: a look at it adds it anew where that is due.
func (w *waiting) forget(key loop.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetLocked(key)
}

func (w *waiting) forgetLocked(key loop.Key) {
	for _, kind := range w.kinds[key] {
		delete(w.keys[kind], key)
		if len(w.keys[kind]) == 0 {
			delete(w.keys, kind)
		}
	}
	delete(w.kinds, key)
}
