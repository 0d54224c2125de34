package h2

import (
	"context"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// stream is a request with its answer. It is what its handler writes to; as a
// body, what it reads from. What is not guarded is the handler's.
type stream struct {
	c      *conn
	id     uint32
	req    *http.Request
	cancel context.CancelFunc
	cond   sync.Cond // something below has changed

	// The client's half; guarded by c.mu.
	in         []byte
	read       int         // of in
	got        int64       // bytes of the body so far
	declared   int64       // by the header; -1: not
	remoteEnd  bool        // the client's half is whole
	inErr      error       // after in
	deaf       bool        // nobody reads the body any more
	late       bool        // the deadline for reading is over
	awaited    bool        // the client waits to be asked for the body
	trailers   http.Header // came behind the body
	recvWindow int64
	recvDebt   int64
	allowed    int64 // firstWindow or streamWindow

	// Ours; guarded by c.mu.
	window int64
	err    error // nothing may be sent any more
	place  int   // in c.waiting, counted from 1; 0: not there
	over   bool  // all was said; the client says the rest
	timers [2]*time.Timer

	answer
}

const (
	reading = iota // index of timers
	writing
)

// run serves the request.
func (st *stream) run() {
	whole := false
	defer func() {
		if whole {
			st.finish()
		} else if p := recover(); p != nil {
			if p != http.ErrAbortHandler {
				st.c.s.logf("h2: panic serving %s: %v\n%s", st.c.remote, p, debug.Stack())
			}
			st.abort()
		} else { // runtime.Goexit
			st.abort()
		}
		st.stopTimers()
		st.c.mu.Lock()
		st.c.running--
		st.c.mu.Unlock()
		st.cancel()
		st.c.flush()
	}()
	switch {
	case st.refuse != 0:
		http.Error(st, http.StatusText(st.refuse), st.refuse)
	case st.req.RequestURI == "*" && st.req.Method == http.MethodOptions: // of the server as a whole
		st.WriteHeader(http.StatusOK)
	default:
		st.c.s.base.Handler.ServeHTTP(st, st.req)
	}
	whole = true
}

// abort resets the stream.
func (st *stream) abort() {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	if st.err == nil {
		st.c.resetLocked(st.id, http2.ErrCodeInternal)
	}
}

// remoteEndLocked: the client has said all.
func (st *stream) remoteEndLocked() {
	st.remoteEnd = true
	if st.inErr == nil {
		st.inErr = io.EOF
	}
	st.cond.Broadcast()
	if st.over {
		st.c.endLocked(st, errStreamEnded)
	}
}

// bodyWholeLocked tells whether all has come that the header declared.
func (st *stream) bodyWholeLocked() bool { return st.declared < 0 || st.got == st.declared }

// keepIn is the largest buffer that a stream whose body was read so far keeps for
// the rest of it.
const keepIn = 4 * specFrame

// takeLocked holds a piece of the body until it is read. What was read is given
// up by then: a reader that is always a little behind empties the buffer never.
func (st *stream) takeLocked(data []byte) {
	if st.read > len(st.in)/2 { // so a byte is moved once for each that was read
		st.in = st.in[:copy(st.in, st.in[st.read:])]
		st.read = 0
	}
	st.in = append(st.in, data...)
}

// emptyLocked: all that has come was read.
func (st *stream) emptyLocked() {
	st.in, st.read = st.in[:0], 0
	if st.remoteEnd || cap(st.in) > keepIn {
		st.in = nil
	}
}

// creditLocked is conn.creditLocked for the stream's window.
func (st *stream) creditLocked(n int64) {
	if st.recvDebt += n; st.recvDebt >= st.allowed/4 && !st.remoteEnd && (st.err == nil || st.over) {
		st.c.windowLocked(st.id, st.recvDebt)
		st.recvWindow += st.recvDebt
		st.recvDebt = 0
		st.c.kickLocked()
	}
}

// allowLocked lets the client send as much as goes well with a handler that
// reads, if there is more to come than it may send anyway.
func (st *stream) allowLocked() {
	if st.allowed == streamWindow || st.remoteEnd || st.deaf || st.err != nil || st.declared >= 0 && st.declared <= firstWindow {
		return
	}
	st.allowed = streamWindow
	st.recvWindow += streamWindow - firstWindow
	st.c.windowLocked(st.id, streamWindow-firstWindow)
	st.c.kickLocked()
}

// body is what a handler reads.
type body stream

func (b *body) Read(p []byte) (int, error) {
	st := (*stream)(b)
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	st.continueLocked()
	st.allowLocked()
	for {
		switch {
		case st.deaf:
			return 0, http.ErrBodyReadAfterClose
		case st.late && st.inErr != io.EOF:
			return 0, os.ErrDeadlineExceeded
		case st.read < len(st.in):
			n := copy(p, st.in[st.read:])
			if st.read += n; st.read == len(st.in) {
				st.emptyLocked()
			}
			c.creditLocked(int64(n))
			st.creditLocked(int64(n))
			return n, nil
		case st.inErr != nil:
			if st.inErr == io.EOF {
				st.giveTrailersLocked()
			}
			return 0, st.inErr
		case len(p) == 0:
			return 0, nil
		}
		st.cond.Wait()
	}
}

func (b *body) Close() error {
	st := (*stream)(b)
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	st.deafLocked()
	return nil
}

// deafLocked: the body is read no further.
func (st *stream) deafLocked() {
	if st.deaf {
		return
	}
	st.deaf = true
	unread := int64(len(st.in) - st.read)
	st.in, st.read = nil, 0
	st.c.creditLocked(unread)
	st.creditLocked(unread)
	st.cond.Broadcast()
}

// continueLocked asks for a body that waits to be asked for.
// https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
func (st *stream) continueLocked() {
	if st.awaited && !st.sent && st.err == nil {
		st.field(":status", "100")
		st.c.headersLocked(st.id, false)
		st.c.kickLocked()
	}
	st.awaited = false
}

// SetReadDeadline is http.ResponseController's.
func (st *stream) SetReadDeadline(t time.Time) error {
	st.setTimer(reading, t, func() { st.late = true })
	return nil
}

// SetWriteDeadline is http.ResponseController's. A write that is late resets the
// stream: of half an answer nothing can be made.
func (st *stream) SetWriteDeadline(t time.Time) error {
	st.setTimer(writing, t, func() {
		if st.err == nil {
			st.err = os.ErrDeadlineExceeded
			st.c.resetLocked(st.id, http2.ErrCodeInternal)
		}
	})
	return nil
}

// EnableFullDuplex is http.ResponseController's; HTTP/2 always is.
func (st *stream) EnableFullDuplex() error { return nil }

func (st *stream) setTimer(which int, t time.Time, lateLocked func()) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := st.timers[which]; old != nil {
		old.Stop()
		st.timers[which] = nil
	}
	if which == reading {
		st.late = false
	}
	if t.IsZero() {
		return
	}
	d := time.Until(t)
	if d <= 0 {
		lateLocked()
		st.cond.Broadcast()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if st.timers[which] == timer { // else set anew, or stopped
			lateLocked()
			st.cond.Broadcast()
		}
	})
	st.timers[which] = timer
}

func (st *stream) stopTimers() {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	for i, t := range st.timers {
		if t != nil {
			t.Stop()
			st.timers[i] = nil
		}
	}
}

// sendLocked sends p as DATA. It waits for the client's windows and for room,
// during which the lock is free.
func (st *stream) sendLocked(p []byte, end bool) error {
	c := st.c
	for len(p) > 0 || end {
		n := int64(min(len(p), c.maxFrame))
		n = min(n, c.window, st.window)
		switch full := c.outLenLocked() >= outLimit; {
		case st.err != nil:
			return st.err
		case full || n <= 0 && len(p) > 0:
			st.waitLocked(full || c.window <= 0)
			continue
		}
		c.window -= n
		st.window -= n
		flags := http2.Flags(0)
		if end && int(n) == len(p) {
			flags, end = http2.FlagDataEndStream, false
		}
		out := c.headLocked(http2.FrameData, flags, st.id, int(n))
		*out = append(*out, p[:n]...)
		p = p[n:]
	}
	return st.err
}

// roomLocked waits for room for a header.
func (st *stream) roomLocked() error {
	for st.err == nil && st.c.outLenLocked() >= outLimit {
		st.waitLocked(true)
	}
	return st.err
}

// waitLocked waits for a change: of the stream, or, for which it has to stand in
// line, of the connection.
func (st *stream) waitLocked(ofConn bool) {
	c := st.c
	if ofConn && st.place == 0 {
		c.waiting = append(c.waiting, st)
		st.place = len(c.waiting)
	}
	c.kickLocked()
	st.cond.Wait()
}
