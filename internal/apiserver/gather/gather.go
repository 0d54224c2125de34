// Package gather makes few large writes to a network of many small ones.
//
// A server of HTTP/2 over TLS writes every frame as one or two TLS records, and
// crypto/tls makes a system call for each record. Under load that is most of
// what an answer costs. Here a write only joins a buffer; a goroutine, there as
// long as there is something to write, sends all that has gathered with one
// call. The busier a connection, the more each call carries; one that is quiet
// waits for nothing and holds no buffer.
//
// Use: serve TLS on Listener(l). Who writes much at once, and would wait for the
// network anyway, does so in Together, which needs no goroutine.
//
// Concurrency: as net.Conn.
//
// Failure: a write that fails is told by the next. After Close, or a deadline
// that is over, what was written before is still sent, for as long as lastWords
// at most.
package gather

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// limit is how much may gather before writers wait for the network.
	limit = 256 << 10
	// lastWords is how long a closed connection may take for what was written.
	lastWords = 2 * time.Second
)

// Listener gives the connections of l the behaviour of this package.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return wrap(c), nil
}

// conn gathers writes. The goroutine of flush owns the buffer that it took.
type conn struct {
	net.Conn

	mu      sync.Mutex
	room    sync.Cond // there is room, or an error
	pending *[]byte   // guarded by mu; nil: nothing
	writing bool      // guarded by mu; flush runs
	held    bool      // guarded by mu; Together runs, and flushes at its end
	closed  bool      // guarded by mu
	late    bool      // guarded by mu; the time to write is over
	err     error     // guarded by mu; of an earlier write
}

func wrap(c net.Conn) *conn {
	out := &conn{Conn: c}
	out.room.L = &out.mu
	return out
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 32<<10); return &b }}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && !c.closed && !c.late && !c.held && c.pending != nil && len(*c.pending) > 0 && len(*c.pending)+len(p) > limit {
		c.room.Wait()
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case c.closed:
		return 0, net.ErrClosed
	case c.late:
		return 0, os.ErrDeadlineExceeded
	}
	if c.pending == nil {
		c.pending = buffers.Get().(*[]byte)
	}
	*c.pending = append(*c.pending, p...)
	if !c.writing && !c.held {
		c.writing = true
		go c.flush()
	}
	return len(p), nil
}

// Together sends what f writes to c, a connection of a Listener of this
// package, with one call once f has returned, and returns when that is sent.
// It is for one goroutine at a time, and for less than 128 KiB.
func Together(c net.Conn, f func() error) error {
	g, ok := c.(*conn)
	if !ok {
		return f()
	}
	g.mu.Lock()
	g.held = true
	g.mu.Unlock()
	err := f()
	g.mu.Lock()
	g.held = false
	if g.pending != nil && !g.writing {
		g.writing = true
		g.mu.Unlock()
		g.flush()
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	for g.writing { // by a Write from before: who went on writing would find no end of room
		g.room.Wait()
	}
	if err != nil {
		return err
	}
	return g.err
}

// flush writes until nothing is left.
func (c *conn) flush() {
	for {
		c.mu.Lock()
		buf := c.pending
		c.pending = nil
		if buf == nil || c.err != nil {
			c.writing = false
			c.room.Broadcast()
			if c.closed {
				c.Conn.Close()
			}
			c.mu.Unlock()
			return
		}
		c.room.Broadcast()
		c.mu.Unlock()
		_, err := c.Conn.Write(*buf)
		if cap(*buf) <= 2*limit {
			*buf = (*buf)[:0]
			buffers.Put(buf)
		}
		if err != nil {
			c.mu.Lock()
			c.err = err
			c.room.Broadcast()
			c.mu.Unlock()
		}
	}
}

// SetWriteDeadline is for writes that have not been taken yet: crypto/tls ends
// its half of a connection with a last record and a deadline that is over.
// What was taken has lastWords then.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.late = !t.IsZero() && !t.After(now)
	c.room.Broadcast()
	if c.late && c.writing || c.closed {
		t = now.Add(lastWords)
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is that for reads and for writes.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.Conn.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close closes the connection once what was written is sent. It does not wait
// for that.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.room.Broadcast()
	if !c.writing {
		return c.Conn.Close()
	}
	now := time.Now()
	c.Conn.SetReadDeadline(now)
	return c.Conn.SetWriteDeadline(now.Add(lastWords))
}
