package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
			for v, revision := range views { // the next look waits for all of them
				w.NoteRevision(key, v, revision)
			}
			return err
		}
	}
	return nil
}

// Outcome is what a write of obj, seen in v, comes to: noted, it is a step; an
// error says what was tried. verb is what was done, in the infinitive
// ("create"), to what the rest tells ("slice web-1").
func (w *Written) Outcome(key loop.Key, v client.View, obj client.Object, err error, verb, format string, args ...any) (loop.Outcome, error) {
	if err != nil {
		return loop.Outcome{}, fmt.Errorf(verb+" "+format+": %w", append(args, err)...)
	}
	w.Note(key, v, obj)
	return loop.Acted(past(verb)+" "+format, args...), nil
}

// Made is what the creation of want, which is to be seen in v, comes to: noted,
// it is a step. A name that is taken is that of an object which the view does
// not show yet, since names follow from what is made. refused is called when
// the server will not have the object; kind is the object's.
func (w *Written) Made(key loop.Key, v client.View, kind string, want, got client.Object, err error, refused func(error)) (loop.Outcome, error) {
	switch {
	case NamespaceEnding(err):
		return WaitForNamespace(want.GetNamespace())
	case apierrors.IsAlreadyExists(err):
		return loop.WaitFor(kind+" "+want.GetNamespace()+"/"+want.GetName(), "it is there but not seen yet"), nil
	case err != nil && Refused(err):
		refused(err)
	}
	return w.Outcome(key, v, got, err, "create", "%s %s", kind, want.GetName())
}

// past is the past tense of a regular verb.
func past(verb string) string { return strings.TrimSuffix(verb, "e") + "ed" }
