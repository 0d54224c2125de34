package apiserver

import (
	"context"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// requestTimeout is how long a request may take that is neither a watch nor
	// a stream; ?timeout= shortens it.
	requestTimeout = time.Minute
	// writeTimeout is that of a request that changes something.
	writeTimeout = 34 * time.Second
	// lateAnswer is how long a request that ran out of time may take to write
	// the answer that says so.
	lateAnswer = time.Second
)

// limit gives the request its deadline. The func it returns must be called when
// the request has ended.
func (x *exchange) limit() (done func(), err error) {
	timeout := requestTimeout
	if x.changes() {
		timeout = writeTimeout
	}
	if v := x.query.get("timeout"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, apierrors.NewBadRequest("invalid timeout specified in the request URL - " + err.Error())
		}
		if d > 0 {
			timeout = min(timeout, d)
		}
	}
	x.limited = true
	ctx, cancel := context.WithTimeout(x.call.ctx, timeout)
	x.call.ctx = ctx
	stuck := &deadline{w: http.NewResponseController(x.w.ResponseWriter)}
	stop := context.AfterFunc(ctx, func() {
		if ctx.Err() == context.DeadlineExceeded {
			stuck.cut(lateAnswer)
		}
	})
	return func() {
		if !stop() {
			stuck.end()
		}
		cancel()
	}, nil
}

// changes tells of a request that may change something.
func (x *exchange) changes() bool {
	switch x.call.verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// deadline frees a handler that waits for a client: for a body that does not
// come, or for one who does not read the answer. It may be used as long as the
// handler runs.
type deadline struct {
	mu    sync.Mutex
	w     *http.ResponseController
	ended bool // guarded by mu; w may not be used any more
}

// cut ends reading now, and writing after grace.
func (d *deadline) cut(grace time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		now := time.Now()
		d.w.SetReadDeadline(now)
		d.w.SetWriteDeadline(now.Add(grace))
	}
}

func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}
