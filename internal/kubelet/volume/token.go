package volume

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tokens are those that are in pods' volumes. They live in memory only: after
// a restart they are asked for anew.
type tokens struct {
	mu    sync.Mutex
	known map[tokenKey]token // guarded by mu
}

type tokenKey struct {
	pod      types.UID
	audience string
	seconds  int64
}

type token struct {
	value string
	renew time.Time
}

// maxAge is how old a token becomes at most, whatever it is good for.
const maxAge = 24 * time.Hour

// get is a token that is not due for renewal: that is at four fifths of its
// life, so that one or two failures do no harm.
func (t *tokens) get(ctx context.Context, opts Options, pod *v1.Pod, k tokenKey) (token, error) {
	t.mu.Lock()
	have, ok := t.known[k]
	t.mu.Unlock()
	now := time.Now()
	if ok && now.Before(have.renew) {
		return have, nil
	}
	value, expires, err := opts.Token(ctx, pod, k.audience, k.seconds)
	if err != nil {
		return token{}, err
	}
	fresh := token{value, now.Add(min(expires.Sub(now)*4/5, maxAge))}
	t.mu.Lock()
	t.known[k] = fresh
	t.mu.Unlock()
	return fresh, nil
}

func (t *tokens) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.known {
		if k.pod == uid {
			delete(t.known, k)
		}
	}
}
