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
	// By the clock on the wall, as the API server judges tokens.
	issued, renew, expires time.Time
}

// due tells whether it is time for a new one. A clock that was set back makes a
// token one of the future, which the API server does not take.
func (t token) due(now time.Time) bool {
	return !now.Before(t.renew) || now.Add(futureMax).Before(t.issued)
}

// futureMax is less than the leeway that the API server gives (a minute).
const futureMax = 30 * time.Second

// maxAge is how old a token becomes at most, whatever it is good for.
const maxAge = 24 * time.Hour

// get is a token that is not due for renewal: that is at four fifths of its
// life, so that one or two failures do no harm.
func (t *tokens) get(ctx context.Context, opts Options, pod *v1.Pod, k tokenKey) (token, error) {
	t.mu.Lock()
	have, ok := t.known[k]
	t.mu.Unlock()
	now := time.Now().Round(0) // by the clock on the wall
	if ok && !have.due(now) {
		return have, nil
	}
	value, expires, err := opts.Token(ctx, pod, k.audience, k.seconds)
	if err != nil {
		return token{}, err
	}
	fresh := token{value, now, now.Add(min(expires.Sub(now)*4/5, maxAge)), expires}
	t.mu.Lock()
	t.known[k] = fresh
	t.mu.Unlock()
	return fresh, nil
}

// Token is a token of the pod's service account, kept until it is due for
// renewal.
func (m *Manager) Token(ctx context.Context, pod *v1.Pod, audience string, seconds int64) (string, time.Time, error) {
	t, err := m.tokens.get(ctx, m.opts, pod, tokenKey{pod.UID, audience, seconds})
	return t.value, t.expires, err
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
