package h2

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// firstWindow is how much of the body of a request a client may send before
	// its handler begins to read it, streamWindow from then on, and connWindow
	// how much of all together (5.2). Requests that wait for their turn must not
	// keep back the bodies of those that have theirs: there is room for as much
	// of all of them, and for what is being read.
	firstWindow  = 64 << 10
	streamWindow = 1 << 20
	connWindow   = maxStreams*firstWindow + 16*streamWindow
	// creditSize is how much at a time is given back of connWindow.
	creditSize = 256 << 10
	// specWindow is what both sides begin with, and specFrame the size of frames
	// that all accept, we no larger ones.
	specWindow = 65535
	specFrame  = 16 << 10
	maxWindow  = 1<<31 - 1
	// maxFrame is the largest that we send, to a client that accepts it.
	maxFrame = 64 << 10
	// maxTable is how much memory a client may have us use for its decoder.
	maxTable = 4096
	// greeting is how long a client may take to say its first words.
	greeting = 10 * time.Second
	// lingering is how long a connection that has ended may take to hear it, and
	// a client that was answered before it had said all, to say the rest.
	lingering = time.Second
)

var (
	errConnEnded   = errors.New("h2: the connection has ended")
	errStreamEnded = errors.New("h2: the stream was reset")
)

// conn is a connection. Its reader owns what is above mu.
type conn struct {
	s        *server
	tls      *tls.Conn
	state    tls.ConnectionState
	remote   string
	ctx      context.Context
	cancel   context.CancelFunc
	br       *bufio.Reader
	fr       *http2.Framer
	starting *stream // whose handler begins once there is nothing more to read

	mu      sync.Mutex
	room    sync.Cond      // the reader waits for room in out
	out     *[]byte        // guarded by mu; frames to be sent; nil: none
	writing bool           // guarded by mu; flush runs
	err     error          // guarded by mu; nothing can be sent any more
	enc     *hpack.Encoder // guarded by mu
	block   bytes.Buffer   // guarded by mu; of enc

	streams  map[uint32]*stream // guarded by mu; open, or half
	lastID   uint32             // guarded by mu; the highest stream of the client
	running  int                // guarded by mu; handlers
	draining bool               // guarded by mu; no new streams
	resting  time.Time          // guarded by mu; since when, if streams is empty
	idle     *time.Timer        // guarded by mu; nil: it may rest for ever
	waiting  []*stream          // guarded by mu; for room in out, or in window

	window       int64 // guarded by mu; how much of bodies we may send
	streamWindow int64 // guarded by mu; that of a new stream
	maxFrame     int   // guarded by mu
	recvWindow   int64 // guarded by mu; how much the client may send
	recvDebt     int64 // guarded by mu; read, but not yet given back to it
}

func newConn(ctx context.Context, s *server, t *tls.Conn) *conn {
	c := &conn{s: s, tls: t, state: t.ConnectionState(), remote: t.RemoteAddr().String(), streams: map[uint32]*stream{},
		window: specWindow, streamWindow: specWindow, maxFrame: specFrame, recvWindow: specWindow}
	c.room.L = &c.mu
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, t.LocalAddr())
	ctx = context.WithValue(ctx, http.ServerContextKey, s.base)
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.br = bufio.NewReader(t)
	c.fr = http2.NewFramer(io.Discard, c.br)
	c.fr.SetReuseFrames()
	c.fr.SetMaxReadFrameSize(specFrame)
	c.fr.ReadMetaHeaders = hpack.NewDecoder(maxTable, nil)
	c.fr.MaxHeaderListSize = c.maxHeader()
	c.enc = hpack.NewEncoder(&c.block)
	return c
}

func (c *conn) maxHeader() uint32 {
	n := c.s.base.MaxHeaderBytes
	if n <= 0 {
		n = http.DefaultMaxHeaderBytes
	}
	return uint32(n) + 32*10 // a header's line counts 32 more here (6.5.2)
}

// serve reads the connection until its end.
func (c *conn) serve() {
	defer c.close()
	if c.state.Version == tls.VersionTLS12 && !modern(c.state.CipherSuite) {
		c.goAway(http2.ErrCodeInadequateSecurity)
		return
	}
	c.tls.SetReadDeadline(time.Now().Add(greeting))
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.br, preface); err != nil {
		return
	}
	if string(preface) != http2.ClientPreface {
		c.goAway(http2.ErrCodeProtocol)
		return
	}
	c.greet()
	for first := true; ; first = false {
		if c.starting != nil && c.br.Buffered() == 0 {
			c.begin()
		}
		f, err := c.fr.ReadFrame()
		if err == nil {
			if _, ok := f.(*http2.SettingsFrame); first && !ok {
				err = http2.ConnectionError(http2.ErrCodeProtocol) // 3.4
			} else {
				err = c.process(f)
			}
		}
		switch err := err.(type) {
		case nil:
			if first {
				c.tls.SetReadDeadline(time.Time{})
				c.mu.Lock()
				c.lingerLocked()
				c.restLocked()
				c.mu.Unlock()
			}
		case http2.StreamError:
			c.mu.Lock()
			if err.StreamID%2 == 1 {
				c.lastID = max(c.lastID, err.StreamID)
			}
			c.resetLocked(err.StreamID, err.Code)
			c.mu.Unlock()
		case http2.ConnectionError:
			c.goAway(http2.ErrCode(err))
			return
		default:
			if errors.Is(err, http2.ErrFrameTooLarge) {
				c.goAway(http2.ErrCodeFrameSize)
			}
			return
		}
	}
}

// greet tells the client what it may do.
func (c *conn) greet() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frameLocked(http2.FrameSettings, 0, 0, settings(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: maxStreams},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: firstWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.maxHeader()},
	))
	c.windowLocked(0, connWindow-specWindow)
	c.recvWindow = connWindow
	c.kickLocked()
}

// begin starts the handler of the request that was read last.
func (c *conn) begin() {
	st := c.starting
	c.starting = nil
	c.s.start(st)
}

// goAway ends the connection for an error of the client's (5.4.1). The reader
// ends with it.
func (c *conn) goAway(code http2.ErrCode) {
	c.tls.SetWriteDeadline(time.Now().Add(lingering))
	c.mu.Lock()
	c.goAwayLocked(code)
	c.kickLocked()
	for c.writing {
		c.room.Wait()
	}
	c.mu.Unlock()
	c.tls.CloseWrite()
	// What the client has sent meanwhile, unread, would have the kernel reset
	// the connection, and the client would not see why.
	c.tls.SetReadDeadline(time.Now().Add(lingering))
	io.Copy(io.Discard, c.tls)
}

func (c *conn) goAwayLocked(code http2.ErrCode) {
	b := appendUint32(nil, c.lastID)
	c.frameLocked(http2.FrameGoAway, 0, 0, appendUint32(b, uint32(code)))
}

// drain ends the connection when the streams that are open have ended (6.8).
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return
	}
	c.draining = true
	c.goAwayLocked(http2.ErrCodeNo)
	c.kickLocked()
	c.lingerLocked()
}

// lingerLocked lets the reader end soon, if nothing is left to do: the client
// closes a connection that it was told to leave.
func (c *conn) lingerLocked() {
	if c.draining && len(c.streams) == 0 {
		c.tls.SetReadDeadline(time.Now().Add(lingering))
	}
}

// restLocked ends the connection when nothing was asked for as long as the
// server's IdleTimeout. A timer that looks now and then costs requests nothing.
func (c *conn) restLocked() {
	limit := c.s.base.IdleTimeout
	if limit <= 0 {
		return
	}
	c.resting = time.Now()
	c.idle = time.AfterFunc(limit, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch left := limit - time.Since(c.resting); {
		case c.err != nil:
		case len(c.streams) > 0:
			c.idle.Reset(limit)
		case left > 0:
			c.idle.Reset(left)
		default:
			go c.drain()
			// Nor need it hear of it: of what it does not read, nothing is an answer.
			c.tls.SetWriteDeadline(time.Now().Add(lingering))
		}
	})
}

// close is the reader's end.
func (c *conn) close() {
	if c.starting != nil {
		c.begin() // it is told by its context
	}
	c.mu.Lock()
	c.failLocked(errConnEnded)
	if c.idle != nil {
		c.idle.Stop()
	}
	c.mu.Unlock()
	c.cancel()
	c.tls.Close()
}

// failLocked ends everything that waits for the connection.
func (c *conn) failLocked(err error) {
	if c.err == nil {
		c.err = err
	}
	for _, st := range c.streams {
		c.endLocked(st, c.err)
	}
	c.room.Broadcast()
}

// modern suites are those that 9.2.2 allows, of the ones that crypto/tls has.
func modern(suite uint16) bool {
	switch suite {
	case tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256:
		return true
	}
	return false
}
