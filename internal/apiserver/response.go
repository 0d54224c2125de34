package apiserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// response counts what is written.
type response struct {
	http.ResponseWriter
	code  int
	bytes int64
}

func (w *response) WriteHeader(code int) {
	if w.code == 0 || w.code < 200 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *response) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap serves http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher.
func (w *response) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Hijack implements http.Hijacker, for streams that upgrade the connection.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.code == 0 {
		w.code = http.StatusSwitchingProtocols
	}
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// header values that need no allocation for each answer.
var (
	headerJSON    = []string{typeJSON}
	headerPrivate = []string{"no-cache, private"}
)

// head writes the header of an answer.
func (x *exchange) head(code int, contentType string, length int) {
	h := x.w.Header()
	if contentType == typeJSON {
		h["Content-Type"] = headerJSON
	} else {
		h["Content-Type"] = []string{contentType}
	}
	h["Cache-Control"] = headerPrivate
	if length >= 0 {
		h["Content-Length"] = []string{strconv.Itoa(length)}
	}
	for _, text := range x.call.warnings {
		h.Add("Warning", `299 - `+strconv.Quote(text))
	}
	x.w.WriteHeader(code)
}

// gzipAbove is the size above which answers are compressed for clients that
// accept it.
const gzipAbove = 128 << 10

// longAnswer is the size up to which an answer surely finds room in buffers, so
// that writing it waits for nobody.
const longAnswer = 16 << 10

// send writes a whole answer.
func (x *exchange) send(code int, contentType string, data []byte, newline bool) error {
	if len(data) > gzipAbove && x.acceptsGzip() {
		b := x.body(code, contentType)
		b.write(data)
		if newline {
			b.write(newlineBytes)
		}
		return b.close()
	}
	if len(data) > longAnswer && !x.limited {
		if done, err := x.limit(); err == nil {
			defer done()
		}
	}
	length := len(data)
	if newline {
		length++
	}
	x.head(code, contentType, length)
	if x.r.Method == http.MethodHead {
		return nil
	}
	_, err := x.w.Write(data)
	if newline && err == nil {
		_, err = x.w.Write(newlineBytes)
	}
	return err
}

var newlineBytes = []byte{'\n'}

func (x *exchange) acceptsGzip() bool {
	return strings.Contains(x.r.Header.Get("Accept-Encoding"), "gzip")
}

// present writes JSON in the medium and the shape that the client wants.
func (x *exchange) present(code int, data []byte) error {
	switch {
	case x.pres.medium == mediumYAML:
		out, err := yaml.JSONToYAML(data)
		if err != nil {
			return err
		}
		return x.send(code, typeYAML, out, false)
	case x.pres.medium == mediumCBOR:
		out, err := cborFromJSON(data)
		if err != nil {
			return err
		}
		return x.send(code, typeCBOR, out, false)
	case x.pres.pretty:
		var out bytes.Buffer
		if err := json.Indent(&out, data, "", "  "); err != nil {
			return err
		}
		return x.send(code, typeJSON, out.Bytes(), false)
	}
	return x.send(code, typeJSON, data, true)
}

// answer writes what a call came to.
func (x *exchange) answer(a answer, err error) error {
	if err != nil {
		return err
	}
	if x.pres.as == asTable && a.entry != nil {
		return x.answerTable(a)
	}
	medium := x.pres.medium
	if medium == mediumYAML {
		medium = mediumJSON
	}
	var data []byte
	if a.entry == nil {
		if x.pres.as == asMetadata && a.gvk != statusGVK {
			return errNotAcceptable(acceptedTypes)
		}
		data, err = encodeObject(a.obj, a.gvk, medium)
	} else {
		f := formObject
		if x.pres.as == asMetadata {
			f = formMetadata
		}
		if a.code == http.StatusCreated && x.call.sv.readers.watchers.Load() == 0 { // nobody else wants it soon
			data, err = a.entry.encodeOnce(x.call.sv, medium, f)
		} else {
			data, err = a.entry.encode(x.call.sv, medium, f)
		}
	}
	if err == errNoProto {
		return errNotAcceptable(typeJSON + ", " + typeYAML)
	}
	if err != nil {
		return err
	}
	if medium == mediumProto || medium == mediumCBOR {
		return x.send(a.code, medium.contentType(), data, false)
	}
	return x.present(a.code, data)
}

// writeStatus answers with a Status.
func (x *exchange) writeStatus(status *metav1.Status) {
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		x.w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	if pres, err := negotiate(x.r, false, true); err == nil {
		x.pres = presentation{medium: pres.medium, pretty: pres.pretty}
	} else {
		x.pres = presentation{}
	}
	code := int(status.Code)
	if m := x.pres.medium; m == mediumProto || m == mediumCBOR {
		if data, err := encodeObject(status, statusGVK, m); err == nil {
			x.send(code, m.contentType(), data, false)
			return
		}
	}
	data, err := json.Marshal(status)
	if err != nil {
		http.Error(&x.w, status.Message, code)
		return
	}
	x.pres.medium = map[bool]medium{true: mediumYAML, false: mediumJSON}[x.pres.medium == mediumYAML]
	x.present(code, data)
}

// body writes a long answer in pieces, compressed if it turns out long and the
// client accepts that.
type body struct {
	x       *exchange
	code    int
	ct      string
	buf     []byte
	pooled  *[]byte
	gz      *gzip.Writer
	started bool
	err     error
}

const bodyChunk = 256 << 10

var (
	chunkPool = sync.Pool{New: func() any { b := make([]byte, 0, bodyChunk+32<<10); return &b }}
	gzipPool  = sync.Pool{New: func() any { w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return w }}
)

func (x *exchange) body(code int, contentType string) *body {
	b := &body{x: x, code: code, ct: contentType, pooled: chunkPool.Get().(*[]byte)}
	b.buf = (*b.pooled)[:0]
	return b
}

func (b *body) write(data []byte) {
	if b.err != nil {
		return
	}
	b.buf = append(b.buf, data...)
	if len(b.buf) >= bodyChunk {
		b.drain()
	}
}

func (b *body) drain() {
	if !b.started {
		b.started = true
		if b.x.acceptsGzip() {
			h := b.x.w.Header()
			h.Set("Content-Encoding", "gzip")
			h.Add("Vary", "Accept-Encoding")
			b.gz = gzipPool.Get().(*gzip.Writer)
			b.gz.Reset(&b.x.w)
		}
		b.x.head(b.code, b.ct, -1)
	}
	if b.gz != nil {
		_, b.err = b.gz.Write(b.buf)
	} else {
		_, b.err = b.x.w.Write(b.buf)
	}
	b.buf = b.buf[:0]
}

func (b *body) close() error {
	defer func() {
		if cap(b.buf) <= 2*bodyChunk {
			*b.pooled = b.buf[:0]
			chunkPool.Put(b.pooled)
		}
	}()
	if !b.started && (len(b.buf) <= gzipAbove || !b.x.acceptsGzip()) {
		b.x.head(b.code, b.ct, len(b.buf))
		if b.x.r.Method != http.MethodHead {
			_, b.err = b.x.w.Write(b.buf)
		}
		return b.err
	}
	b.drain()
	if b.gz != nil {
		if err := b.gz.Close(); b.err == nil {
			b.err = err
		}
		gzipPool.Put(b.gz)
	}
	return b.err
}
