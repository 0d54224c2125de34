package h2

import (
	"log"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// answer is the part of a stream that its handler writes. Sent and what was
// written before sent is the handler's; sent itself is guarded by conn.mu.
type answer struct {
	header  http.Header // the handler's
	frozen  http.Header // as of WriteHeader
	status  int         // 0: WriteHeader was not called
	refuse  int         // answer with this status in the handler's stead
	head    bool        // the request is HEAD
	length  int64       // Content-Length; -1: unknown
	written int64
	buf     *[]byte // written, not sent yet; nil: nothing
	sent    bool    // the header was
	closes  bool    // the connection is to end
}

// bufSize is how much is held back until Flush or the end: a short answer leaves
// with its header, in one piece, and tells its length.
const bufSize = 4 << 10

var bufPool = sync.Pool{New: func() any { b := make([]byte, 0, bufSize); return &b }}

// Header is http.ResponseWriter's.
func (st *stream) Header() http.Header {
	if st.header == nil {
		st.header = make(http.Header, 4)
	}
	return st.header
}

// WriteHeader is http.ResponseWriter's.
func (st *stream) WriteHeader(code int) {
	if st.status != 0 {
		return
	}
	if code < 100 || code > 999 {
		panic("h2: invalid status " + strconv.Itoa(code))
	}
	if code < 200 {
		st.inform(code)
		return
	}
	st.status, st.frozen = code, st.header.Clone()
	if v := st.frozen["Content-Length"]; len(v) > 0 {
		if n, err := strconv.ParseUint(v[0], 10, 63); err == nil {
			st.length = int64(n)
		} else {
			delete(st.frozen, "Content-Length")
		}
	}
}

// inform sends a header that another will follow.
func (st *stream) inform(code int) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.roomLocked() != nil {
		return
	}
	if code == http.StatusContinue {
		st.awaited = false
	}
	h := st.header
	if _, ok := h["Content-Length"]; ok { // that of the answer, which is not this one
		h = h.Clone()
		delete(h, "Content-Length")
	}
	st.field(":status", strconv.Itoa(code))
	st.fields(h)
	c.headersLocked(st.id, false)
	c.kickLocked()
}

// Write is http.ResponseWriter's.
func (st *stream) Write(p []byte) (int, error) {
	if st.status == 0 {
		st.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(st.status) {
		return 0, http.ErrBodyNotAllowed
	}
	st.written += int64(len(p))
	if st.length >= 0 && st.written > st.length {
		return 0, http.ErrContentLength
	}
	if st.head {
		if len(p) > 0 {
			st.sniff(p)
		}
		return len(p), nil
	}
	if st.buf == nil && len(p) <= bufSize {
		st.buf = bufPool.Get().(*[]byte)
	}
	if st.buf != nil && len(*st.buf)+len(p) <= bufSize {
		*st.buf = append(*st.buf, p...)
		return len(p), nil
	}
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := st.emitLocked(p); err != nil {
		return 0, err
	}
	if err := st.sendLocked(p, false); err != nil {
		return 0, err
	}
	c.kickLocked()
	return len(p), nil
}

// emitLocked sends the header, if it was not, and what was held back. p will
// follow.
func (st *stream) emitLocked(p []byte) error {
	if err := st.roomLocked(); err != nil {
		return err
	}
	var held []byte
	if st.buf != nil {
		held = *st.buf
	}
	if !st.sent {
		first := held
		if len(first) == 0 {
			first = p
		}
		st.headLocked(first, false)
	}
	err := st.sendLocked(held, false)
	st.releaseBuf()
	return err
}

func (st *stream) releaseBuf() {
	if st.buf != nil {
		*st.buf = (*st.buf)[:0]
		bufPool.Put(st.buf)
		st.buf = nil
	}
}

// Flush is http.Flusher's.
func (st *stream) Flush() { st.FlushError() }

// FlushError is http.ResponseController's.
func (st *stream) FlushError() error {
	if st.status == 0 {
		st.WriteHeader(http.StatusOK)
	}
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	err := st.emitLocked(nil)
	c.kickLocked()
	return err
}

// finish ends the answer; the caller flushes.
func (st *stream) finish() {
	if st.status == 0 {
		st.WriteHeader(http.StatusOK)
	}
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	defer st.releaseBuf()
	if st.roomLocked() != nil {
		return
	}
	var held []byte
	if st.buf != nil {
		held = *st.buf
	}
	trailers := st.trailersToSend()
	if !st.sent {
		if st.length < 0 && bodyAllowed(st.status) && !(st.head && st.written == 0) {
			st.frozen = orMake(st.frozen)
			st.frozen["Content-Length"] = []string{strconv.FormatInt(st.written, 10)}
		}
		end := len(held) == 0 && trailers == nil
		st.headLocked(held, end)
		if end {
			st.localEndLocked()
			return
		}
	}
	if st.sendLocked(held, trailers == nil) != nil {
		return
	}
	if trailers != nil {
		if st.roomLocked() != nil {
			return
		}
		st.fields(trailers)
		c.headersLocked(st.id, true)
	}
	st.localEndLocked()
}

// localEndLocked: our half is whole, and with it, soon, the stream. A client that
// is still sending is heard out for a while, though what it says is of no use: of
// those that are told to stop together with the answer (8.1), some forget the
// answer, curl among them.
func (st *stream) localEndLocked() {
	c := st.c
	switch {
	case st.remoteEnd:
		c.endLocked(st, errStreamEnded)
	case c.streams[st.id] == st:
		st.over, st.err = true, errStreamEnded
		st.deafLocked()
		time.AfterFunc(lingering, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.streams[st.id] == st {
				c.resetLocked(st.id, http2.ErrCodeNo)
			}
		})
	}
	if st.closes {
		go c.drain()
	}
}

// headLocked sends the header. first is the beginning of the body.
func (st *stream) headLocked(first []byte, end bool) {
	st.sent, st.awaited = true, false
	if len(first) > 0 {
		st.sniff(first)
	}
	h := orMake(st.frozen)
	st.frozen = h
	if _, ok := h["Date"]; !ok {
		h["Date"] = today()
	}
	st.closes = httpguts.HeaderValuesContainsToken(h["Connection"], "close")
	st.field(":status", statusText(st.status))
	st.fields(h)
	st.c.headersLocked(st.id, end)
	st.frozen = nil // an answer that goes on for hours needs it no more
	if v := h["Trailer"]; len(v) > 0 {
		st.frozen = http.Header{"Trailer": v}
	}
}

// sniff tells the type of a body that begins with first, unless the handler did.
func (st *stream) sniff(first []byte) {
	h := orMake(st.frozen)
	st.frozen = h
	if _, ok := h["Content-Type"]; !ok && len(h["Content-Encoding"]) == 0 {
		h["Content-Type"] = []string{http.DetectContentType(first)}
	}
}

// trailersToSend are those that were announced, and those marked as such.
func (st *stream) trailersToSend() (out http.Header) {
	add := func(name string, values []string) {
		if len(values) > 0 && httpguts.ValidTrailerHeader(name) {
			out = orMake(out)
			out[name] = values
		}
	}
	for _, v := range st.frozen["Trailer"] {
		for name := range strings.SplitSeq(v, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			add(name, st.header[name])
		}
	}
	for key, values := range st.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			add(http.CanonicalHeaderKey(name), values)
		}
	}
	return out
}

// fields encodes a header into the connection's block, without what HTTP/2 has no
// use for (8.2.2).
func (st *stream) fields(h http.Header) {
	for key, values := range h {
		switch key {
		case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade":
			continue
		}
		if strings.HasPrefix(key, http.TrailerPrefix) {
			continue
		}
		name, ok := lower[key]
		if !ok {
			if name = strings.ToLower(key); !httpguts.ValidHeaderFieldName(name) {
				continue
			}
		}
		for _, v := range values {
			if httpguts.ValidHeaderFieldValue(v) {
				st.field(name, v)
			}
		}
	}
}

func (st *stream) field(name, value string) {
	st.c.enc.WriteField(hpack.HeaderField{Name: name, Value: value})
}

// lower are the names of most headers as they are sent.
var lower = map[string]string{
	"Audit-Id": "audit-id", "Cache-Control": "cache-control", "Content-Encoding": "content-encoding",
	"Content-Length": "content-length", "Content-Type": "content-type", "Date": "date", "Retry-After": "retry-after",
	"Trailer": "trailer", "Vary": "vary", "Warning": "warning",
}

func statusText(code int) string {
	switch code {
	case http.StatusOK:
		return "200"
	case http.StatusCreated:
		return "201"
	}
	return strconv.Itoa(code)
}

// bodyAllowed: https://www.rfc-editor.org/rfc/rfc9110#section-6.4.1
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

func orMake(h http.Header) http.Header {
	if h == nil {
		return http.Header{}
	}
	return h
}

// lastDate is made anew each second.
var lastDate atomic.Pointer[dated]

type dated struct {
	at   int64
	text []string
}

func today() []string {
	now := time.Now()
	if d := lastDate.Load(); d != nil && d.at == now.Unix() {
		return d.text
	}
	d := &dated{now.Unix(), []string{now.UTC().Format(http.TimeFormat)}}
	lastDate.Store(d)
	return d.text
}

func (s *server) logf(format string, args ...any) {
	if l := s.base.ErrorLog; l != nil {
		l.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
