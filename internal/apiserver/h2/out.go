package h2

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/net/http2"

	"github.com/setpoint-project/setpoint/internal/apiserver/gather"
)

const (
	// outLimit is how much may wait to be sent before streams wait for room.
	outLimit = 128 << 10
	// controlRoom is what the reader may add to that: answers to what a client
	// sends. One that asks without listening is not heard any further.
	controlRoom = 64 << 10
	// sendSize is how much is encrypted at a time, and sent with one call.
	sendSize    = 64 << 10
	frameHeader = 9
)

var outPool = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

func (c *conn) outLenLocked() int {
	if c.out == nil {
		return 0
	}
	return len(*c.out)
}

// headLocked begins a frame whose payload, of n bytes, the caller appends.
func (c *conn) headLocked(t http2.FrameType, flags http2.Flags, id uint32, n int) *[]byte {
	if c.out == nil {
		c.out = outPool.Get().(*[]byte)
	}
	*c.out = append(*c.out, byte(n>>16), byte(n>>8), byte(n), byte(t), byte(flags), byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	return c.out
}

func (c *conn) frameLocked(t http2.FrameType, flags http2.Flags, id uint32, payload []byte) {
	if c.err != nil {
		return
	}
	out := c.headLocked(t, flags, id, len(payload))
	*out = append(*out, payload...)
}

func (c *conn) windowLocked(id uint32, n int64) {
	c.frameLocked(http2.FrameWindowUpdate, 0, id, appendUint32(nil, uint32(n)))
}

// headersLocked sends the header block that was encoded, in as many frames as it
// needs.
func (c *conn) headersLocked(id uint32, end bool) {
	b, t, flags := c.block.Bytes(), http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for {
		n := min(len(b), c.maxFrame)
		if n == len(b) {
			flags |= http2.FlagHeadersEndHeaders // CONTINUATION's is the same bit
		}
		c.frameLocked(t, flags, id, b[:n])
		if b = b[n:]; len(b) == 0 {
			break
		}
		t, flags = http2.FrameContinuation, 0
	}
	c.block.Reset()
}

// kickLocked has sent what was written, by another goroutine.
func (c *conn) kickLocked() {
	if !c.writing && c.out != nil {
		c.writing = true
		go c.flushSoon()
	}
}

// flushSoon first lets those run who are about to write as well: an event wakes
// all its watchers at once. When nobody else wants to run, that is at once. A
// buffer that is full gains nothing by it: on a busy machine the others are
// many, and one watch with a lot to say would send a buffer in each of their
// rounds, and be cut off as too slow.
func (c *conn) flushSoon() {
	c.mu.Lock()
	full := c.outLenLocked() >= outLimit
	c.mu.Unlock()
	if !full {
		runtime.Gosched()
	}
	c.flushAll()
}

// flush sends what was written, unless somebody is at it.
func (c *conn) flush() {
	c.mu.Lock()
	if c.writing {
		c.mu.Unlock()
		return
	}
	c.writing = true
	c.mu.Unlock()
	c.flushAll()
}

// flushAll sends until nothing is left; c.writing is its caller's.
func (c *conn) flushAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.out != nil && c.err == nil {
		buf := c.out
		c.out = nil
		c.wakeLocked()
		c.mu.Unlock()
		err := c.send(*buf)
		if cap(*buf) <= 2*outLimit {
			*buf = (*buf)[:0]
			outPool.Put(buf)
		}
		c.mu.Lock()
		if err != nil {
			c.failLocked(fmt.Errorf("%w: %w", errConnEnded, err))
			c.tls.NetConn().Close() // the reader ends
		}
	}
	c.writing = false
	c.room.Signal()
}

func (c *conn) send(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), sendSize)
		err := gather.Together(c.tls.NetConn(), func() error {
			_, err := c.tls.Write(b[:n])
			return err
		})
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// wakeLocked tells those who wait that there is room.
func (c *conn) wakeLocked() {
	for i, st := range c.waiting {
		st.place = 0
		st.cond.Broadcast()
		c.waiting[i] = nil
	}
	if c.waiting = c.waiting[:0]; cap(c.waiting) > 64 {
		c.waiting = nil
	}
	c.room.Signal()
}

// leaveLocked takes a stream that has ended out of the line: of a client that
// reads nothing and resets what it asks for, nobody else would.
func (c *conn) leaveLocked(st *stream) {
	if st.place == 0 {
		return
	}
	last := len(c.waiting) - 1
	moved := c.waiting[last]
	c.waiting[st.place-1], moved.place = moved, st.place
	c.waiting[last] = nil
	c.waiting = c.waiting[:last]
	st.place = 0
}

// hearkenLocked keeps the reader from reading on while the client does not read
// what it was answered.
func (c *conn) hearkenLocked() {
	for c.err == nil && c.outLenLocked() > outLimit+controlRoom {
		c.kickLocked()
		c.room.Wait()
	}
}

func appendUint32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

func settings(all ...http2.Setting) (b []byte) {
	for _, s := range all {
		b = binary.BigEndian.AppendUint16(b, uint16(s.ID))
		b = appendUint32(b, s.Val)
	}
	return b
}
