package h2

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestOffences: what a client must not do ends its stream or its connection, with
// the code of RFC 9113.
func TestOffences(t *testing.T) {
	overflow := func(id uint32) func(*peer) {
		return func(p *peer) { p.must(p.fr.WriteWindowUpdate(id, maxWindow)) }
	}
	for _, c := range []struct {
		name   string
		do     func(*peer)
		stream bool // ends only it
		code   http2.ErrCode
	}{
		{"overflows the connection's window", overflow(0), false, http2.ErrCodeFlowControl},
		{"overflows a stream's window", overflow(1), true, http2.ErrCodeFlowControl},
		{"overflows by settings", func(p *peer) {
			p.must(p.fr.WriteWindowUpdate(1, maxWindow-specWindow))
			p.must(p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: specWindow + 1}))
		}, false, http2.ErrCodeFlowControl},
		{"a window of a stream that is not there", overflow(99), false, http2.ErrCodeProtocol},
		{"an even stream", func(p *peer) { p.ask(2, "GET", "/", true) }, false, http2.ErrCodeProtocol},
		{"a stream below another", func(p *peer) {
			p.ask(9, "GET", "/", true)
			p.ask(7, "GET", "/", true)
		}, false, http2.ErrCodeProtocol},
		{"data of a stream that is not there", func(p *peer) { p.must(p.fr.WriteData(99, true, nil)) }, false, http2.ErrCodeProtocol},
		{"a header in pieces without end", func(p *peer) {
			p.must(p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: nil}))
			for {
				p.buf.Reset()
				p.must(p.enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("~", 10000), Sensitive: true}))
				if p.fr.WriteContinuation(3, false, p.buf.Bytes()) != nil {
					return
				}
			}
		}, false, http2.ErrCodeProtocol},
		{"a frame inside a header", func(p *peer) {
			p.must(p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: nil}))
			p.must(p.fr.WritePing(false, [8]byte{}))
		}, false, http2.ErrCodeProtocol},
		{"a connection's header", func(p *peer) { p.ask(3, "GET", "/", true, "connection", "close") }, true, http2.ErrCodeProtocol},
		{"a path that is none", func(p *peer) { p.ask(3, "GET", "x", true) }, true, http2.ErrCodeProtocol},
		{"two lengths", func(p *peer) { p.ask(3, "POST", "/", false, "content-length", "1", "content-length", "2") }, true, http2.ErrCodeProtocol},
		{"a length and no body", func(p *peer) { p.ask(3, "POST", "/", true, "content-length", "1") }, true, http2.ErrCodeProtocol},
		{"a frame too large", func(p *peer) { p.fr.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, specFrame+1)) }, false, http2.ErrCodeFrameSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := start(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				p := x.peer(t)
				p.ask(1, "POST", "/", false)
				next[*http2.SettingsFrame](p)
				got := make(chan http2.ErrCode, 1)
				go func() {
					defer close(got)
					for {
						f, err := p.fr.ReadFrame()
						if err != nil {
							return
						}
						switch f := f.(type) {
						case *http2.GoAwayFrame:
							if !c.stream {
								got <- f.ErrCode
							}
							io.Copy(io.Discard, p.conn)
							return
						case *http2.RSTStreamFrame:
							if c.stream {
								got <- f.ErrCode
								io.Copy(io.Discard, p.conn)
								return
							}
						}
					}
				}()
				go c.do(p)
				if code, ok := <-got; !ok || code != c.code {
					t.Errorf("%v, told %t; want %v", code, ok, c.code)
				}
				p.conn.NetConn().Close()
				synctest.Wait()
			})
		})
	}
}

// TestEmptyFrames: frames that say nothing cost nothing that stays, and padding is
// given back as data is.
func TestEmptyFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan int64, 1)
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			read <- n
		})
		p := x.peer(t)
		go io.Copy(io.Discard, p.conn)
		p.ask(1, "POST", "/", false)
		for range 20000 {
			p.must(p.fr.WriteData(1, false, nil))
			p.must(p.fr.WriteDataPadded(1, false, []byte("x"), make([]byte, 200)))
		}
		p.must(p.fr.WriteData(1, true, nil))
		if n := <-read; n != 20000 {
			t.Errorf("%d bytes were read", n)
		}
		p.conn.NetConn().Close()
		synctest.Wait()
	})
}

// FuzzBytes: whatever comes behind the preface, the server neither panics nor
// hangs, and nothing is left of it when the client has gone.
func FuzzBytes(f *testing.F) {
	seed := func(say func(fr *http2.Framer, header []byte)) {
		var block, all bytes.Buffer
		enc := hpack.NewEncoder(&block)
		for _, kv := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", "/x"}, {":authority", "a"}, {"content-length", "4"}} {
			enc.WriteField(hpack.HeaderField{Name: kv[0], Value: kv[1]})
		}
		fr := http2.NewFramer(&all, nil)
		fr.AllowIllegalWrites = true
		fr.WriteSettings()
		say(fr, block.Bytes())
		f.Add(all.Bytes())
	}
	seed(func(fr *http2.Framer, h []byte) {
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: h, EndHeaders: true})
		fr.WriteData(1, true, []byte("body"))
	})
	seed(func(fr *http2.Framer, h []byte) {
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: h[:3]})
		fr.WriteContinuation(1, true, h[3:])
		fr.WriteDataPadded(1, false, []byte("bo"), make([]byte, 9))
		fr.WriteRSTStream(1, http2.ErrCodeCancel)
		fr.WriteData(1, true, []byte("dy"))
	})
	seed(func(fr *http2.Framer, h []byte) {
		fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: h, EndHeaders: true, EndStream: true})
		fr.WriteWindowUpdate(3, 1)
		fr.WriteWindowUpdate(0, maxWindow)
		fr.WritePing(false, [8]byte{})
		fr.WriteGoAway(0, http2.ErrCodeNo, nil)
		fr.WritePriority(5, http2.PriorityParam{StreamDep: 5})
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			var running atomic.Int32
			x := start(t, func(w http.ResponseWriter, r *http.Request) {
				running.Add(1)
				defer running.Add(-1)
				n, err := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, n, err, r.Header, r.Trailer)
				w.(http.Flusher).Flush()
				w.Write(make([]byte, 70000))
			})
			x.srv.ErrorLog = log.New(complaint{t}, "", 0)
			p := x.peer(t)
			go io.Copy(io.Discard, p.conn)
			p.conn.Write(data)
			synctest.Wait()
			p.conn.NetConn().Close()
			synctest.Wait()
			if n := running.Load(); n != 0 {
				t.Errorf("%d handlers are left", n)
			}
		})
	})
}

// complaint fails the test for what net/http logs of a panic.
type complaint struct{ t *testing.T }

func (c complaint) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("panic")) {
		c.t.Errorf("%s", b)
	}
	return len(b), nil
}
