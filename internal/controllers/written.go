package controllers

import (
	"context"
	"sync"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// Written lets a loop read its own writes. A view may lag behind (over the
// network it does): a loop that looks again before the view shows what it has
// just made would make it twice. It notes each write and waits, at the next
// look at the same key, until the view shows it.
//
// The zero value is ready. Safe for use from many goroutines.
type Written struct {
	mu   sync.Mutex
	last map[loop.Key]map[client.View]string // guarded by mu
}

// Note remembers that obj was written for key. Notes of one key and view come
// in order of revision or from one step.
func (w *Written) Note(key loop.Key, v client.View, obj client.Object) {
	w.NoteRevision(key, v, obj.GetResourceVersion())
}

// NoteRevision is Note for a revision alone.
func (w *Written) NoteRevision(key loop.Key, v client.View, resourceVersion string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[loop.Key]map[client.View]string{}
	}
	views := w.last[key]
	if views == nil {
		views = map[client.View]string{}
		w.last[key] = views
	}
	if client.Later(resourceVersion, views[v]) {
		views[v] = resourceVersion
	}
}

// Wait blocks until the views show what was written for key.
func (w *Written) Wait(ctx context.Context, key loop.Key) error {
	w.mu.Lock()
	views := w.last[key]
	delete(w.last, key)
	w.mu.Unlock()
	for v, revision := range views {
		if err := v.WaitFor(ctx, revision); err != nil {
			w.NoteRevision(key, v, revision)
			return err
		}
	}
	return nil
}
