package intern

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Bounds of what is kept for sharing.
const (
	maxParts = 2048    // of each of two generations
	maxPart  = 8 << 10 // bytes of a part
	doors    = 8192    // see parts.seen
)

// parts are what parts of messages say, by their bytes. A part is kept when its
// bytes come for the second time: most of what is in one object only never
// enters. When a generation is full, the one before it goes.
type parts[T any, P interface {
	*T
	Message
}] struct {
	mu         sync.RWMutex
	young, old map[string]P // guarded by mu

	// seen holds half of the hash of what came last, at a place that the
	// other half says.
	seed maphash.Seed
	seen [doors]atomic.Uint32
}

func newParts[T any, P interface {
	*T
	Message
}]() *parts[T, P] {
	return &parts[T, P]{young: map[string]P{}, seed: maphash.MakeSeed()}
}

// get returns what raw says. It is shared and must not change.
func (p *parts[T, P]) get(raw []byte) (P, error) {
	p.mu.RLock()
	v, aged := p.young[string(raw)], false
	if v == nil {
		v, aged = p.old[string(raw)], true
	}
	p.mu.RUnlock()
	if v != nil && !aged {
		return v, nil
	}
	if v == nil {
		v = new(T)
		if err := unmarshal(v, raw); err != nil {
			return nil, err
		}
		if len(raw) > maxPart || !p.again(raw) {
			return v, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if had := p.young[string(raw)]; had != nil {
		return had, nil
	}
	if len(p.young) >= maxParts {
		p.young, p.old = map[string]P{}, p.young
	}
	p.young[string(raw)] = v
	return v, nil
}

// again tells whether raw was here before, not too long ago.
func (p *parts[T, P]) again(raw []byte) bool {
	h := maphash.Bytes(p.seed, raw)
	mark := uint32(h>>32) | 1
	return p.seen[h%doors].Swap(mark) == mark
}

// maxWords are kept of each of two generations.
const maxWords = 8192

// words are strings that many objects have: kinds of conditions, images.
type words struct {
	mu         sync.RWMutex
	young, old map[string]string // guarded by mu
}

func newWords() *words { return &words{young: map[string]string{}} }

// share makes s the one copy of its text.
func share[S ~string](w *words, s *S) {
	if *s == "" {
		return
	}
	w.mu.RLock()
	had, ok := w.young[string(*s)]
	w.mu.RUnlock()
	if !ok {
		had = w.keep(string(*s))
	}
	*s = S(had)
}

func (w *words) keep(s string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if had, ok := w.old[s]; ok {
		s = had
	}
	if len(w.young) >= maxWords {
		w.young, w.old = map[string]string{}, w.young
	}
	if had, ok := w.young[s]; ok {
		return had
	}
	w.young[s] = s
	return s
}
