package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// process does what a frame of the client's asks for. It returns a StreamError
// or a ConnectionError.
func (c *conn) process(f http2.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hearkenLocked()
	if c.err != nil {
		return c.err
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return c.headersFrameLocked(f)
	case *http2.DataFrame:
		return c.dataFrameLocked(f)
	case *http2.WindowUpdateFrame:
		return c.windowFrameLocked(f)
	case *http2.SettingsFrame:
		return c.settingsFrameLocked(f)
	case *http2.RSTStreamFrame:
		if c.idleLocked(f.StreamID) {
			return http2.ConnectionError(http2.ErrCodeProtocol) // 6.4
		}
		if st := c.streams[f.StreamID]; st != nil {
			c.endLocked(st, errStreamEnded)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			c.frameLocked(http2.FramePing, http2.FlagPingAck, 0, f.Data[:])
			c.kickLocked()
		}
	case *http2.PriorityFrame: // heard, not heeded (5.3.2)
		if f.StreamDep == f.StreamID {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
		}
	case *http2.GoAwayFrame:
		if !c.draining {
			c.draining = true
			c.lingerLocked()
		}
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol) // 8.4
	}
	return nil
}

// idleLocked tells of streams that have not begun, as far as the client knows.
func (c *conn) idleLocked(id uint32) bool { return id%2 == 0 || id > c.lastID && !c.draining }

func (c *conn) headersFrameLocked(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	if st := c.streams[id]; st != nil {
		return c.trailersLocked(st, f)
	}
	switch {
	case id%2 == 0:
		return http2.ConnectionError(http2.ErrCodeProtocol) // 5.1.1
	case id <= c.lastID && f.PseudoValue("method") == "":
		// The trailers of a request that was answered before they were sent.
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
	case id <= c.lastID:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case c.draining:
		return nil // the client knows that it was not heard (6.8)
	}
	c.lastID = id
	if f.HasPriority() && f.Priority.StreamDep == id {
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
	}
	// A stream that was reset no longer counts, but its handler may still run.
	if len(c.streams) >= maxStreams || c.running >= 2*maxStreams {
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
	}
	st, ok := c.newStream(f)
	if !ok {
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol} // 8.1.1
	}
	st.window, st.recvWindow, st.allowed = c.streamWindow, firstWindow, firstWindow
	c.streams[id] = st
	c.running++
	if f.StreamEnded() {
		st.remoteEndLocked()
	}
	// A short body mostly lies behind the header already. To begin only then
	// spares the handler to fall asleep over it.
	if c.starting != nil {
		c.begin()
	}
	c.starting = st
	return nil
}

func (c *conn) trailersLocked(st *stream, f *http2.MetaHeadersFrame) error {
	switch {
	case st.remoteEnd:
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeStreamClosed}
	case !f.StreamEnded(), len(f.PseudoFields()) > 0, !st.bodyWholeLocked():
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeProtocol} // 8.1
	}
	st.takeTrailersLocked(f.RegularFields())
	st.remoteEndLocked()
	return nil
}

func (c *conn) dataFrameLocked(f *http2.DataFrame) error {
	n := int64(f.Length) // with the padding (6.9.1)
	if c.idleLocked(f.StreamID) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if n > c.recvWindow {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	c.recvWindow -= n
	st := c.streams[f.StreamID]
	if st == nil || st.remoteEnd {
		c.creditLocked(n)
		if f.StreamID > c.lastID {
			return nil // after GOAWAY: not heard
		}
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeStreamClosed}
	}
	data := f.Data()
	st.got += int64(len(data))
	switch {
	case n > st.recvWindow:
		c.creditLocked(n)
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeFlowControl}
	case st.declared >= 0 && st.got > st.declared, f.StreamEnded() && !st.bodyWholeLocked():
		c.creditLocked(n)
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeProtocol} // 8.1.1
	}
	st.recvWindow -= n
	if st.deaf {
		c.creditLocked(n)
		st.creditLocked(n)
	} else {
		c.creditLocked(n - int64(len(data)))
		st.creditLocked(n - int64(len(data)))
		st.takeLocked(data)
	}
	if f.StreamEnded() {
		st.remoteEndLocked()
	}
	st.cond.Broadcast()
	return nil
}

// creditLocked gives the client back what was read of the connection's window,
// in large pieces.
func (c *conn) creditLocked(n int64) {
	if c.recvDebt += n; c.recvDebt >= creditSize {
		c.windowLocked(0, c.recvDebt)
		c.recvWindow += c.recvDebt
		c.recvDebt = 0
		c.kickLocked()
	}
}

func (c *conn) windowFrameLocked(f *http2.WindowUpdateFrame) error {
	n := int64(f.Increment)
	if f.StreamID == 0 {
		if c.window += n; c.window > maxWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl) // 6.9.1
		}
		c.wakeLocked()
		return nil
	}
	if c.idleLocked(f.StreamID) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if st := c.streams[f.StreamID]; st != nil {
		if st.window += n; st.window > maxWindow {
			return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeFlowControl}
		}
		st.cond.Broadcast()
	}
	return nil
}

func (c *conn) settingsFrameLocked(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingHeaderTableSize:
			c.enc.SetMaxDynamicTableSize(s.Val) // or the default, where that is less
		case http2.SettingMaxFrameSize:
			c.maxFrame = min(int(s.Val), maxFrame)
		case http2.SettingInitialWindowSize:
			grown := int64(s.Val) - c.streamWindow
			c.streamWindow = int64(s.Val)
			for _, st := range c.streams {
				if st.window += grown; st.window > maxWindow {
					return http2.ConnectionError(http2.ErrCodeFlowControl) // 6.9.2
				}
				st.cond.Broadcast()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.frameLocked(http2.FrameSettings, http2.FlagSettingsAck, 0, nil)
	c.kickLocked()
	return nil
}

// resetLocked ends a stream by an error of it.
func (c *conn) resetLocked(id uint32, code http2.ErrCode) {
	c.frameLocked(http2.FrameRSTStream, 0, id, appendUint32(nil, uint32(code)))
	c.kickLocked()
	if st := c.streams[id]; st != nil {
		c.endLocked(st, errStreamEnded)
	}
}

// endLocked forgets a stream. Its handler may still run; it is told by err.
func (c *conn) endLocked(st *stream, err error) {
	delete(c.streams, st.id)
	c.leaveLocked(st)
	if st.err == nil {
		st.err = err
	}
	if st.inErr == nil {
		st.inErr = err
	}
	unread := int64(len(st.in) - st.read)
	st.in, st.read = nil, 0
	if unread > 0 {
		c.creditLocked(unread)
	}
	st.cond.Broadcast()
	st.cancel()
	if len(c.streams) == 0 && c.idle != nil {
		c.resting = time.Now()
	}
	c.lingerLocked()
}
