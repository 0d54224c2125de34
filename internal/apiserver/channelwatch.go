package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

// channelWatch is a watch in this process.
type channelWatch struct {
	ctx    context.Context
	cancel context.CancelFunc
	sv     *served
	s      *Server
	ch     chan watch.Event
}

func (w *channelWatch) Stop()                          { w.cancel() }
func (w *channelWatch) ResultChan() <-chan watch.Event { return w.ch }

func (w *channelWatch) send(kind watch.EventType, obj runtime.Object) error {
	select {
	case w.ch <- watch.Event{Type: kind, Object: obj}:
		return nil
	case <-w.ctx.Done():
		return errNoReader
	}
}

func (w *channelWatch) events(evs []event) error {
	for i := range evs {
		obj, err := w.sv.shown(evs[i].entry.obj)
		if err != nil {
			return err
		}
		if err := w.send(evs[i].kind, obj); err != nil {
			return err
		}
	}
	return nil
}

func (w *channelWatch) initial(records []*store.Record) error {
	for _, rec := range records {
		e, err := w.s.entryOf(w.sv.resource, rec)
		if err != nil {
			return err
		}
		obj, err := w.sv.shown(e.obj)
		if err != nil {
			return err
		}
		if err := w.send(watch.Added, obj); err != nil {
			return err
		}
	}
	return nil
}

func (w *channelWatch) bookmark(obj kinds.Object) error {
	if d, ok := obj.(kinds.Dynamic); ok {
		return w.send(watch.Bookmark, d.Unstructured())
	}
	return w.send(watch.Bookmark, obj)
}

func (w *channelWatch) fail(err error) { w.send(watch.Error, statusOf(err)) }

func (w *channelWatch) flush() error { return nil }
