package controllers

import (
	"context"
	"time"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// NewLoop makes a loop that tells its outcomes to the options' Observer.
func NewLoop(opts Options, name string, workers int, reconcile func(context.Context, loop.Key) (loop.Outcome, error)) *loop.Loop {
	lo := loop.Options{Name: name, Reconcile: reconcile, Workers: workers, Logger: opts.Logger}
	if opts.Observer != nil {
		lo.Observer = func(key loop.Key, o loop.Outcome, err error, _ time.Duration) { opts.Observer(name, key, o, err) }
	}
	return loop.New(lo)
}

// Input is a view that a loop reads, and what a change in it makes the loop
// look at.
type Input struct {
	View client.View
	// Changed may be nil. old and new are as for client.View.Handle.
	Changed func(old, new client.Object)
}

// Run waits until the inputs have once shown everything, turns l, and takes
// the handlers away again. What l waits for with an object that goes it looks at
// once more: it is waited for no more.
func Run(ctx context.Context, l *loop.Loop, inputs ...Input) error {
	for _, in := range inputs {
		if in.Changed != nil {
			defer in.View.Handle(func(old, new client.Object) {
				in.Changed(old, new)
				if new == nil && l.Open(KeyOf(old)) {
					l.Look(KeyOf(old))
				}
			})()
		}
	}
	for _, in := range inputs {
		if err := in.View.WaitSynced(ctx); err != nil {
			l.Stop()
			return err
		}
	}
	return l.Run(ctx)
}

// Look is a Changed that looks at the object itself.
func Look(l *loop.Loop) func(old, new client.Object) {
	return func(old, new client.Object) { l.Look(KeyOf(Present(old, new))) }
}

// LookWhere is a Changed that looks at objects of which f is true or was, and
// at those that are waited for: one that needs nothing now, or is gone, is
// waited for no more.
func LookWhere[T client.Object](l *loop.Loop, f func(T) bool) func(old, new client.Object) {
	return func(old, new client.Object) {
		for _, obj := range []client.Object{old, new} {
			if t, ok := obj.(T); ok && (f(t) || l.Open(KeyOf(t))) {
				l.Look(KeyOf(t))
				return
			}
		}
	}
}

// LookAtController is a Changed that looks at the controllers of the object,
// when they are of the given kind.
func LookAtController(l *loop.Loop, kind string) func(old, new client.Object) {
	return func(old, new client.Object) {
		for _, obj := range []client.Object{old, new} {
			if key, ok := ControllerKey(obj, kind); ok {
				l.Look(key)
			}
		}
	}
}

// Present is the newer of the two objects of a change.
func Present(old, new client.Object) client.Object {
	if new != nil {
		return new
	}
	return old
}
