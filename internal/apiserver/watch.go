package apiserver

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

const (
	// watchLimit is how many changes a watcher may lag behind before it is cut
	// off. They are shared with the other watchers, so it costs pointers.
	watchLimit = 16384
	// bookmarkEvery is how often a quiet watch is told how far it is complete.
	bookmarkEvery = time.Minute
	// See pace.
	pacePerWatcher = 100 * time.Microsecond
	maxPace        = 10 * time.Millisecond
	// A watch without a timeout of its own ends after one to two of these.
	minWatchTimeout = 30 * time.Minute
)

// stream is one watch, whoever reads it.
type stream struct {
	server  *Server
	call    *call
	sub     *subscriber
	filter  *filter
	from    int64 // everything up to here the reader knows
	hubAt   int64 // the subscription begins after this
	initial *page // what to send first, or nil
	prefix  string

	bookmarks  bool
	endInitial bool          // say when initial is through
	timeout    time.Duration // of the whole watch
	opened     func()        // called when initial is through, if not nil
	spare      []*change
	err        error // to be sent as the first event

	evs        []event // empty, to be used again
	end        time.Time
	mark       time.Time // when the next bookmark is due; end: never
	marksEvery time.Duration
	timer      *time.Timer // wakes sub when either comes
}

// event is one event of a stream.
type event struct {
	kind   watch.EventType
	entry  *entry
	change *change // whose frames are shared; nil: none
}

// openWatch starts a watch. cut is called when its reader is too slow. Errors that Kubernetes sends as an event of the
// watch are kept for the stream.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-watch
func (s *Server) openWatch(c *call, opts *metav1.ListOptions, cut func()) (*stream, error) {
	f, err := newFilter(c.sv, c.namespace, opts.LabelSelector, opts.FieldSelector)
	if err != nil {
		return nil, err
	}
	if err := validateListOptions(opts, true); err != nil {
		return nil, err
	}
	rv, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	st := &stream{server: s, call: c, filter: f, bookmarks: opts.AllowWatchBookmarks, prefix: f.prefix(c.sv.resource)}
	st.timeout = minWatchTimeout + rand.N(minWatchTimeout)
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds > 0 {
		st.timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	sendInitial := rv == 0
	if opts.SendInitialEvents != nil {
		sendInitial = *opts.SendInitialEvents
		st.endInitial = sendInitial && opts.AllowWatchBookmarks
		if rv > 0 {
			if err := s.reach(c.ctx, rv); err != nil {
				return nil, err
			}
		}
	}
	st.sub = newSubscriber(c.sv.resource, f, watchLimit)
	st.sub.cut = cut
	c.sv.readers.watchers.Add(1)
	if st.hubAt, err = s.hub.subscribe(c.ctx, st.sub); err != nil {
		c.sv.readers.watchers.Add(-1)
		if errors.Is(err, errHubStopped) {
			err = apierrors.NewServiceUnavailable("the server is shutting down")
		}
		return nil, err
	}
	switch {
	case sendInitial:
		st.initial, err = s.pages(c, f, 0, store.Range{Prefix: st.prefix})
		if err != nil {
			st.close()
			return nil, storeError(err)
		}
		st.from = st.initial.revision
	case rv > 0:
		st.from = rv
	default:
		st.from = s.store.Revision()
	}
	return st, nil
}

func (st *stream) close() {
	st.server.hub.unsubscribe(st.sub)
	st.call.sv.readers.watchers.Add(-1)
}

// catchUp reads from the store's history what came between the revision that
// the reader knows and the one at which the subscription began. It reads the
// changes of everything: where nothing of the prefix has changed, a watch of
// that alone would wait for the next change, and meanwhile the stream could not
// end in its time.
func (st *stream) catchUp(ctx context.Context, send func([]event, int64) error) error {
	if st.from >= st.hubAt {
		return nil
	}
	w, err := st.server.store.Watch(ctx, everything, st.from)
	if err != nil {
		return st.historyError(err)
	}
	defer w.Close()
	for st.from < st.hubAt {
		changes, upTo, err := w.Next(ctx)
		if err != nil {
			return st.historyError(err)
		}
		var out []event
		for _, ev := range changes {
			if ev.Record.Revision > st.hubAt {
				break // comes by the subscription
			}
			if !strings.HasPrefix(ev.Record.Key, st.prefix) {
				continue
			}
			c := &change{res: st.sub.res, ev: ev}
			c.namespace, c.name = c.res.names(ev.Record.Key)
			if !st.filter.matchesKey(c.namespace, c.name) {
				continue
			}
			e, err := st.event(c)
			if err != nil {
				return err
			}
			if e.kind != "" {
				out = append(out, e)
			}
		}
		st.from = min(upTo, st.hubAt)
		if len(out) > 0 {
			if err := send(out, st.from); err != nil {
				return err
			}
		}
	}
	return nil
}

func (st *stream) historyError(err error) error {
	if errors.Is(err, store.ErrCompacted) {
		return errWatchExpired(st.from, st.server.store.Oldest())
	}
	return storeError(err)
}

func (st *stream) event(c *change) (event, error) {
	kind, e, err := st.server.seen(st.sub, c)
	return event{kind: kind, entry: e, change: c}, err
}

// errWatchEnd ends a stream in good order.
var errWatchEnd = errors.New("apiserver: watch ended")

// pull returns what has come since, and how far the stream is complete now. It
// does not block.
func (st *stream) pull(out []event) ([]event, int64, error) {
	at := st.server.hub.at.Load() // before taking: all up to here is queued
	changes, lost, ended := st.sub.take(st.spare)
	for _, c := range changes {
		if c.ev.Record.Revision <= st.from {
			continue
		}
		e, err := st.event(c)
		if err != nil {
			return out, 0, err
		}
		if e.kind != "" {
			out = append(out, e)
		}
	}
	if len(changes) > 0 {
		st.spare = changes
	}
	st.from = max(st.from, at)
	if n := len(changes); n > 0 {
		st.from = max(st.from, changes[n-1].ev.Record.Revision)
	}
	if lost || ended { // who was cut off takes the watch up where it was
		return out, st.from, errWatchEnd
	}
	return out, st.from, nil
}

// bookmark is an object that holds nothing but how far the watch is complete.
func (st *stream) bookmark(initialEnd bool) kinds.Object {
	obj := st.call.sv.version.New()
	obj.GetObjectKind().SetGroupVersionKind(st.call.sv.gvk)
	obj.SetResourceVersion(formatRevision(st.from))
	if initialEnd {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return obj
}

// sink is where a stream writes to.
type sink interface {
	// events are written in order and not kept by the stream afterwards.
	events([]event) error
	initial([]*store.Record) error
	bookmark(kinds.Object) error
	fail(error)
	// flush sends what was written.
	flush() error
}

// run drives the stream until the reader goes, the time is over or the server
// stops. Nearly all of them are asleep at nearly all times: what keeps them on
// the stack then is short, so that the runtime takes half of it back.
func (st *stream) run(ctx context.Context, out sink) {
	err := st.begin(ctx, out)
	for err == nil {
		if err = st.turn(ctx, out); err == nil {
			st.sleep(ctx)
		}
	}
	st.finish(ctx, out, err)
}

// begin sends all up to the point from where the subscription brings it.
func (st *stream) begin(ctx context.Context, out sink) error {
	if st.initial != nil {
		if err := out.initial(st.initial.records); err != nil {
			return err
		}
		st.initial = nil
		if st.endInitial {
			if err := out.bookmark(st.bookmark(true)); err != nil {
				return err
			}
		}
	}
	if err := out.flush(); err != nil { // the header, at least
		return err
	}
	if st.opened != nil {
		st.opened()
	}
	err := st.catchUp(ctx, func(evs []event, _ int64) error {
		if err := out.events(evs); err != nil {
			return err
		}
		return out.flush()
	})
	if err != nil {
		return err
	}
	st.end = time.Now().Add(st.timeout)
	st.marksEvery = bookmarkEvery + rand.N(bookmarkEvery/10)
	st.mark = st.end
	if st.bookmarks {
		st.mark = time.Now().Add(st.marksEvery)
	}
	st.timer = time.AfterFunc(time.Until(st.due()), st.sub.wake)
	return nil
}

// due is when there is something to do, whether or not anything changes.
func (st *stream) due() time.Time {
	if st.mark.Before(st.end) {
		return st.mark
	}
	return st.end
}

// turn sends what there is to send now. errWatchEnd: that was the last.
func (st *stream) turn(ctx context.Context, out sink) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	last := !now.Before(st.end)
	mark := st.bookmarks && (last || !now.Before(st.mark))
	evs, _, err := st.pull(st.evs[:0])
	if sendErr := st.send(out, evs, mark && err == nil); sendErr != nil {
		return sendErr
	}
	if err != nil {
		return err
	}
	if last {
		return errWatchEnd
	}
	if len(evs) > 0 && !st.pace(ctx) {
		return ctx.Err()
	}
	if clear(evs); cap(evs) > spareMax {
		evs = nil
	}
	st.evs = evs
	if mark {
		st.mark = now.Add(st.marksEvery)
		st.timer.Reset(time.Until(st.due()))
	}
	return nil
}

// sleep waits until there may be something to do.
func (st *stream) sleep(ctx context.Context) {
	select {
	case <-st.sub.signal: // by the hub or the timer
	case <-ctx.Done():
	}
}

// finish ends the stream. Whoever still reads is told why it did not go on, as
// Kubernetes does: a stream that just ends would be taken up at once where it
// stopped, and stop there again.
func (st *stream) finish(ctx context.Context, out sink, err error) {
	if st.timer != nil {
		st.timer.Stop()
	}
	if errors.Is(err, errWatchEnd) || errors.Is(err, errNoReader) || ctx.Err() != nil {
		return
	}
	if api := apierrors.APIStatus(nil); !errors.As(err, &api) {
		err = apierrors.NewInternalError(err) // above all: a conversion that failed
	}
	out.fail(err)
	out.flush()
}

// send writes what was pulled and, where it is due, how far the stream is
// complete with it.
func (st *stream) send(out sink, evs []event, mark bool) error {
	if len(evs) == 0 && !mark {
		return nil
	}
	if err := out.events(evs); err != nil {
		return err
	}
	if mark {
		if err := out.bookmark(st.bookmark(false)); err != nil {
			return err
		}
	}
	return out.flush()
}

// pace waits a little after events were sent when many watch the same: under a
// stream of changes each of them then sends some together, with one write, in
// place of one write for every change. One watcher alone is never held up.
func (st *stream) pace(ctx context.Context) bool {
	d := min(maxPace, time.Duration(st.sub.res.readers.watchers.Load())*pacePerWatcher)
	if d < time.Millisecond {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
