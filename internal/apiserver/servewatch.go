package apiserver

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

const (
	typeWatchJSON  = typeJSON
	typeWatchProto = typeProto + ";stream=watch"
)

func (x *exchange) serveWatch() error {
	var err error
	if x.pres, err = negotiate(x.r, true, x.call.sv.wire != nil); err != nil {
		return err
	}
	opts, err := x.query.listOptions()
	if err != nil {
		return err
	}
	if name := x.call.name; name != "" { // a watch of one object
		if opts.FieldSelector != "" {
			opts.FieldSelector += ","
		}
		opts.FieldSelector += "metadata.name=" + name
		x.call.name = ""
	}
	stuck := &deadline{w: http.NewResponseController(x.w.ResponseWriter)}
	st, err := x.s.openWatch(&x.call, opts, func() { go stuck.cut(0) })
	if err != nil {
		stuck.end()
		// A watch that cannot begin where it was asked to is answered as an
		// event, as Kubernetes does.
		if apierrors.IsResourceExpired(err) {
			out := &watchWriter{x: x}
			out.fail(err)
			return out.flush()
		}
		return err
	}
	st.opened = x.ticket.Done
	if x.pres.as != asTable { // whose rows ask it again
		x.query.values = nil // an idle watch holds what it needs, for hours
	}
	x.watch = &watching{st: st, out: watchWriter{x: x}, stuck: stuck}
	return nil
}

// watching is a watch that was opened and is to run.
type watching struct {
	st    *stream
	out   watchWriter
	stuck *deadline
}

// run is called by the first func of the request, not by those that opened the
// watch: see stream.run.
func (w *watching) run() {
	defer w.end()
	w.st.run(w.out.x.r.Context(), &w.out)
}

func (w *watching) end() {
	w.out.release()
	w.st.close()
	w.stuck.end()
}

// watchWriter writes a stream as HTTP. Events are gathered into one buffer and
// leave with one write and one flush.
type watchWriter struct {
	x       *exchange
	buf     []byte
	pooled  *[]byte
	started bool
	columns bool // the table's columns were sent
}

// watchChunk is how much is gathered before it is written.
const watchChunk = 128 << 10

func (w *watchWriter) add(data []byte) error {
	if w.buf == nil {
		w.pooled = chunkPool.Get().(*[]byte)
		w.buf = (*w.pooled)[:0]
	}
	w.buf = append(w.buf, data...)
	if len(w.buf) >= watchChunk {
		return w.write()
	}
	return nil
}

func (w *watchWriter) write() error {
	if !w.started {
		w.started = true
		ct := typeWatchJSON
		if w.x.pres.medium == mediumProto {
			ct = typeWatchProto
		} else if w.x.pres.medium == mediumCBOR {
			ct = typeCBORSeq
		}
		w.x.head(http.StatusOK, ct, -1)
	}
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.x.w.Write(w.buf)
	w.buf = w.buf[:0]
	if err != nil {
		return fmt.Errorf("%w: %w", errNoReader, err)
	}
	return nil
}

func (w *watchWriter) flush() error {
	err := w.write()
	w.release()
	if err == nil {
		w.x.w.Flush()
	}
	return err
}

// release gives the buffer back: an idle watch holds none.
func (w *watchWriter) release() {
	if w.pooled != nil {
		if cap(w.buf) <= 2*bodyChunk {
			*w.pooled = w.buf[:0]
			chunkPool.Put(w.pooled)
		}
		w.pooled, w.buf = nil, nil
	}
}

func (w *watchWriter) events(evs []event) error {
	x := w.x
	for i := range evs {
		ev := &evs[i]
		if x.pres.as == asTable {
			if err := w.table(ev.kind, ev.entry); err != nil {
				return err
			}
			continue
		}
		data, err := ev.change.frame(x.call.sv, x.pres.medium, x.form(), ev.kind, ev.entry)
		if err != nil {
			return err
		}
		if err := w.add(data); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) form() form {
	if x.pres.as == asMetadata {
		return formMetadata
	}
	return formObject
}

func (w *watchWriter) initial(records []*store.Record) error {
	x := w.x
	var frame []byte
	for _, rec := range records {
		e, err := x.s.entryOf(x.call.sv.resource, rec)
		if err != nil {
			return err
		}
		if x.pres.as == asTable {
			if err := w.table(watch.Added, e); err != nil {
				return err
			}
			continue
		}
		data, err := e.encode(x.call.sv, x.pres.medium, x.form())
		if err != nil {
			return err
		}
		frame = appendFrame(frame[:0], x.pres.medium, watch.Added, data)
		if err := w.add(frame); err != nil {
			return err
		}
	}
	return nil
}

func (w *watchWriter) table(kind watch.EventType, e *entry) error {
	t, err := w.x.table([]*entry{e}, metav1.ListMeta{ResourceVersion: e.obj.GetResourceVersion()}, !w.columns)
	if err != nil {
		return err
	}
	w.columns = true
	data, err := encodeObject(t, t.GroupVersionKind(), w.x.pres.medium)
	if err != nil {
		return err
	}
	return w.add(appendFrame(nil, w.x.pres.medium, kind, data))
}

func (w *watchWriter) bookmark(obj kinds.Object) error {
	x := w.x
	var data []byte
	var err error
	switch x.pres.as {
	case asTable:
		t := &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, Rows: []metav1.TableRow{}}
		t.ResourceVersion = obj.GetResourceVersion()
		if !w.columns {
			t.ColumnDefinitions = x.columns()
			w.columns = true
		}
		row, err := x.bookmarkRow(obj)
		if err != nil {
			return err
		}
		t.Rows = append(t.Rows, row)
		data, err = encodeObject(t, t.GroupVersionKind(), x.pres.medium)
		if err != nil {
			return err
		}
	case asMetadata:
		data, err = encodeObject(partialMetadata(obj), partialGVK, x.pres.medium)
	default:
		data, err = encodeObject(obj, x.call.sv.gvk, x.pres.medium)
	}
	if err != nil {
		return err
	}
	return w.add(appendFrame(nil, x.pres.medium, watch.Bookmark, data))
}

func (w *watchWriter) fail(err error) {
	data, encErr := encodeObject(statusOf(err), statusGVK, w.x.pres.medium)
	if encErr == nil {
		w.add(appendFrame(nil, w.x.pres.medium, watch.Error, data))
	}
}
