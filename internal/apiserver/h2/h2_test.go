package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestEventsArriveAtOnce: a lone event waits for no other, in no time at all.
func TestEventsArriveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan string)
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			for e := range events {
				io.WriteString(w, e)
				w.(http.Flusher).Flush()
			}
		})
		began := time.Now()
		go func() { events <- "the first" }()
		resp, err := x.client.Get("https://test/")
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n, _ := resp.Body.Read(buf)
		for _, e := range []string{"short", strings.Repeat("long", 20)} {
			time.Sleep(time.Hour)
			began = began.Add(time.Hour)
			events <- e
			if n, _ = resp.Body.Read(buf); string(buf[:n]) != e {
				t.Errorf("got %q, want %q", buf[:n], e)
			}
			if late := time.Since(began); late != 0 {
				t.Errorf("%q came %v late", e, late)
			}
		}
		close(events)
		if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
			t.Errorf("the end: %q, %v", rest, err)
		}
	})
}

// TestOrder: streams share a connection, and each arrives whole and in order,
// with whatever is written how.
func TestOrder(t *testing.T) {
	want := func(id int) string {
		var b strings.Builder
		for i := range 400 {
			fmt.Fprintln(&b, id, i, strings.Repeat("x", i*id%3000))
		}
		return b.String()
	}
	x := start(t, func(w http.ResponseWriter, r *http.Request) {
		var id int
		fmt.Sscanf(r.URL.Path, "/%d", &id)
		for i, line := range strings.SplitAfter(want(id), "\n") {
			io.WriteString(w, line)
			if i%(id+1) == 0 {
				w.(http.Flusher).Flush()
			}
		}
	})
	var wg sync.WaitGroup
	for id := range 40 {
		wg.Go(func() {
			resp, err := x.client.Get(fmt.Sprint("https://test/", id))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); string(got) != want(id) || err != nil {
				t.Errorf("stream %d: %d bytes of %d arrived, %v", id, len(got), len(want(id)), err)
			}
		})
	}
	wg.Wait()
}

// TestSlowReader: who does not read what it asked for holds up neither memory nor
// its neighbours, and its handler is freed by a deadline.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken atomic.Int64
		var failed atomic.Pointer[error]
		control := make(chan *http.ResponseController, 1)
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/short" {
				io.WriteString(w, "short")
				return
			}
			control <- http.NewResponseController(w)
			for {
				n, err := w.Write(make([]byte, 10000))
				if taken.Add(int64(n)); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
		p := x.peer(t)
		next[*http2.SettingsFrame](p)
		p.ask(1, "GET", "/long", true)
		got := 0
		for got < specWindow {
			got += len(next[*http2.DataFrame](p).Data())
		}
		synctest.Wait()
		if n := taken.Load(); n > specWindow {
			t.Errorf("%d bytes were taken of a writer whose client gave room for %d", n, specWindow)
		}
		// The connection's window is full as well: the client makes room for others.
		p.must(p.fr.WriteWindowUpdate(0, 1<<20))
		p.ask(3, "GET", "/short", true)
		if f := next[*http2.DataFrame](p); f.StreamID != 3 || string(f.Data()) != "short" {
			t.Errorf("got %v %q", f, f.Data())
		}
		p.must(p.fr.WriteWindowUpdate(1, 5000))
		for got = 0; got < 5000; {
			f := next[*http2.DataFrame](p)
			if got += len(f.Data()); f.StreamID != 1 || got > 5000 {
				t.Errorf("got %v", f)
			}
		}
		if failed.Load() != nil {
			t.Errorf("the writer failed: %v", *failed.Load())
		}
		(<-control).SetWriteDeadline(time.Now())
		if f := next[*http2.RSTStreamFrame](p); f.StreamID != 1 || f.ErrCode != http2.ErrCodeInternal {
			t.Errorf("got %v", f)
		}
		synctest.Wait()
		if err := failed.Load(); err == nil || !errors.Is(*err, os.ErrDeadlineExceeded) {
			t.Errorf("the writer was not freed by its deadline: %v", err)
		}
	})
}

// TestDeafClient: one that reads nothing at all, with windows as large as can be,
// ties up a bounded buffer; deadlines free its handlers, and its end all.
func TestDeafClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken atomic.Int64
		var running atomic.Int32
		var c atomic.Pointer[conn]
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Add(-1)
			c.Store(w.(*stream).c)
			piece := make([]byte, 1<<20)
			if r.URL.Path == "/limited" {
				http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
			}
			for {
				n, err := w.Write(piece)
				if taken.Add(int64(n)); err != nil {
					return
				}
			}
		})
		p := x.peer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
		next[*http2.SettingsFrame](p)
		p.must(p.fr.WriteWindowUpdate(0, maxWindow-specWindow))
		for id := range uint32(20) {
			p.ask(1+2*id, "GET", []string{"/", "/limited"}[id%2], true)
		}
		synctest.Wait()
		c.Load().mu.Lock()
		held := c.Load().outLenLocked()
		c.Load().mu.Unlock()
		if n := taken.Load(); n > 4*outLimit || held < outLimit || held > 2*outLimit {
			t.Errorf("%d bytes were taken for a client that does not read, %d are held", n, held)
		}
		if n := running.Load(); n != 20 {
			t.Errorf("%d handlers run", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := running.Load(); n != 10 {
			t.Errorf("%d handlers run after the deadline of 10 of 20", n)
		}
		p.conn.NetConn().Close()
		synctest.Wait()
		if n := running.Load(); n != 0 {
			t.Errorf("%d handlers run without their connection", n)
		}
	})
}

// TestResetsOfADeafClient: of requests that a client which reads nothing takes
// back, while their answers wait for room, nothing is left.
func TestResetsOfADeafClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Pointer[conn]
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			seen.Store(w.(*stream).c)
			for r.URL.Path == "/long" {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		})
		p := x.peer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
		next[*http2.SettingsFrame](p)
		p.must(p.fr.WriteWindowUpdate(0, maxWindow-specWindow))
		p.ask(1, "GET", "/long", true)
		synctest.Wait()
		for id := range uint32(100) {
			p.ask(3+2*id, "GET", "/", true)
			synctest.Wait()
			if id%3 > 0 { // so that some in the middle leave, and some at the end
				p.must(p.fr.WriteRSTStream(3+2*id, http2.ErrCodeCancel))
				p.must(p.fr.WriteRSTStream(3+2*(id-1), http2.ErrCodeCancel))
			}
			synctest.Wait()
		}
		c := seen.Load()
		c.mu.Lock()
		for i, st := range c.waiting {
			if st.place != i+1 || c.streams[st.id] != st {
				t.Errorf("stream %d, which has ended, is still in line at %d, as number %d", st.id, i+1, st.place)
			}
		}
		if len(c.waiting) != len(c.streams) || len(c.streams) != 2 {
			t.Errorf("%d of %d streams wait, want the long one and the last", len(c.waiting), len(c.streams))
		}
		c.mu.Unlock()
		p.conn.NetConn().Close()
		synctest.Wait()
	})
}

// TestLaggingReader: of a body that is read always a little later than it comes,
// no more is held than was not read yet, and nothing at its end.
func TestLaggingReader(t *testing.T) {
	const piece, lag, pieces = 10000, 1000, 500
	synctest.Test(t, func(t *testing.T) {
		var st atomic.Pointer[stream]
		turn, end := make(chan struct{}), make(chan struct{})
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			st.Store(w.(*stream))
			buf, at := make([]byte, piece), byte(0)
			for range turn {
				if _, err := io.ReadFull(r.Body, buf); err != nil {
					t.Error(err)
				}
				for _, b := range buf {
					if b != at {
						t.Fatalf("got %d, want %d", b, at)
					}
					at++
				}
			}
			if rest, err := io.ReadAll(r.Body); len(rest) != lag || err != nil {
				t.Errorf("the rest: %d bytes, %v", len(rest), err)
			}
			<-end
		})
		p := x.peer(t)
		go io.Copy(io.Discard, p.conn)
		p.ask(1, "POST", "/", false)
		at := byte(0)
		send := func(n int) {
			data := make([]byte, n)
			for i := range data {
				data[i] = at
				at++
			}
			p.must(p.fr.WriteData(1, false, data))
		}
		held := func() int {
			synctest.Wait()
			st := st.Load()
			st.c.mu.Lock()
			defer st.c.mu.Unlock()
			return cap(st.in)
		}
		send(lag)
		for range pieces {
			send(piece)
			synctest.Wait()
			turn <- struct{}{}
		}
		if n := held(); n > 4*(piece+lag) {
			t.Errorf("%d bytes are held of a body of which %d were not read", n, lag)
		}
		p.must(p.fr.WriteData(1, true, nil))
		close(turn)
		if n := held(); n != 0 {
			t.Errorf("%d bytes are held of a body that was read", n)
		}
		close(end)
		p.conn.NetConn().Close()
		synctest.Wait()
	})
}

// TestQuestionsWithoutEnd: a client that asks and does not listen is not heard
// any further; nothing piles up.
func TestQuestionsWithoutEnd(t *testing.T) {
	for _, ask := range []func(*peer) error{
		func(p *peer) error { return p.fr.WritePing(false, [8]byte{}) },
		func(p *peer) error { return p.fr.WriteSettings() },
		func(p *peer) error { return p.fr.WriteData(1, false, nil) }, // of a stream that has ended
	} {
		synctest.Test(t, func(t *testing.T) {
			x := start(t, func(w http.ResponseWriter, r *http.Request) {})
			p := x.peer(t)
			next[*http2.SettingsFrame](p)
			p.ask(1, "POST", "/", true)
			next[*http2.MetaHeadersFrame](p)
			asked := 0
			go func() {
				for ask(p) == nil {
					asked++
				}
			}()
			synctest.Wait()
			if n := asked * frameHeader; n < controlRoom/2 || n > 16*(outLimit+controlRoom) {
				t.Errorf("%d questions were heard", asked)
			}
			before := asked
			for range 20000 { // it listens again
				if _, err := p.fr.ReadFrame(); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if asked <= before {
				t.Error("it is not heard again")
			}
			p.conn.NetConn().Close()
			synctest.Wait()
		})
	}
}

// TestRapidReset: requests that are taken back at once do not make more handlers
// than a client may have.
// https://www.cve.org/CVERecord?id=CVE-2023-44487
func TestRapidReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		end := make(chan struct{})
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			<-end // heeds no context
			running.Add(-1)
		})
		p := x.peer(t)
		go io.Copy(io.Discard, p.conn)
		for id := range uint32(3 * maxStreams) {
			p.ask(1+2*id, "GET", "/", true)
			p.must(p.fr.WriteRSTStream(1+2*id, http2.ErrCodeCancel))
		}
		synctest.Wait()
		if n := running.Load(); n != 2*maxStreams {
			t.Errorf("%d handlers run", n)
		}
		close(end)
		synctest.Wait()
		if n := running.Load(); n != 0 {
			t.Errorf("%d handlers run at the end", n)
		}
	})
}

// TestTooManyStreams: the one above what was promised is refused, in the way that
// tells the client to try again.
func TestTooManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		p := x.peer(t)
		for id := range uint32(maxStreams + 1) {
			p.ask(1+2*id, "GET", "/", true)
		}
		if f := next[*http2.RSTStreamFrame](p); f.StreamID != 1+2*maxStreams || f.ErrCode != http2.ErrCodeRefusedStream {
			t.Errorf("got %v", f)
		}
		p.must(p.fr.WriteRSTStream(1, http2.ErrCodeCancel))
		synctest.Wait()
		p.ask(3+2*maxStreams, "GET", "/", true)
		p.must(p.fr.WritePing(false, [8]byte{}))
		next[*http2.PingFrame](p) // and no reset before it
		p.conn.NetConn().Close()
		synctest.Wait()
	})
}

// TestReset: the handler of a request that is taken back learns it, and the
// connection goes on.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 2)
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				_, err := r.Body.Read(make([]byte, 1))
				ended <- err
			}
			<-r.Context().Done()
			_, err := w.Write(make([]byte, 10000))
			ended <- err
		})
		p := x.peer(t)
		p.ask(1, "POST", "/", false)
		synctest.Wait()
		p.must(p.fr.WriteRSTStream(1, http2.ErrCodeCancel))
		for range 2 {
			if err := <-ended; err == nil {
				t.Error("a reset stream goes on")
			}
		}
		p.must(p.fr.WritePing(false, [8]byte{1}))
		next[*http2.PingFrame](p)
		p.conn.NetConn().Close()
		synctest.Wait()
	})
}

// TestClientGoes: whatever a client of whom the connection breaks has asked for
// ends.
func TestClientGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Add(-1)
			w.(http.Flusher).Flush()
			if _, err := io.ReadAll(r.Body); err == nil {
				<-r.Context().Done()
			}
		})
		p := x.peer(t)
		for id := range uint32(50) {
			p.ask(1+2*id, "POST", "/", id%2 == 0)
		}
		go io.Copy(io.Discard, p.conn)
		synctest.Wait()
		if n := running.Load(); n != 50 {
			t.Errorf("%d handlers run", n)
		}
		p.conn.NetConn().Close()
		synctest.Wait()
		if n := running.Load(); n != 0 {
			t.Errorf("%d handlers run without a client", n)
		}
	})
}

// TestUploads: bodies larger than every window come through, beside others that
// nobody reads.
func TestUploads(t *testing.T) {
	x := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		case "/closed":
			r.Body.Close()
			io.WriteString(w, "closed")
		case "/begun":
			r.Body.Read(make([]byte, 1))
		}
	})
	body := make([]byte, connWindow+3*streamWindow+1)
	for range 200 { // what lies there unread is given back, too
		resp, err := x.client.Post("https://test/begun", "x/y", bytes.NewReader(body[:64<<10]))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for range 2 {
		for path, want := range map[string]string{"/read": fmt.Sprint(len(body), nil), "/unread": "", "/closed": "closed"} {
			resp, err := x.client.Post("https://test"+path, "x/y", bytes.NewReader(body))
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if got, err := io.ReadAll(resp.Body); string(got) != want || err != nil {
				t.Errorf("%s: %q, %v", path, got, err)
			}
			resp.Body.Close()
		}
	}
}

// TestWaitingUploads: the bodies of requests that wait for their turn, however
// many, do not hold up that of the one which they wait for.
func TestWaitingUploads(t *testing.T) {
	turn := make(chan struct{})
	var waiting sync.WaitGroup
	x := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			waiting.Done()
			<-turn
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})
	body := make([]byte, 2*streamWindow)
	upload := func(path string) {
		resp, err := x.client.Post("https://test"+path, "x/y", bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); string(got) != fmt.Sprint(len(body), nil) || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	var done sync.WaitGroup
	waiting.Add(200)
	for range 200 {
		done.Go(func() { upload("/wait") })
	}
	waiting.Wait()
	for range 3 {
		upload("/go")
	}
	close(turn)
	done.Wait()
}

// TestAnsweredEarly: a client that is answered before it has said all has time to
// say the rest, whatever that is, before it is told to stop; nothing is left of
// it either way.
func TestAnsweredEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Pointer[conn]
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			seen.Store(w.(*stream).c)
			io.WriteString(w, "no")
		})
		left := func() int {
			synctest.Wait()
			c := seen.Load()
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.streams)
		}
		for name, rest := range map[string]func(p *peer){
			"an empty frame": func(p *peer) { p.must(p.fr.WriteData(1, true, nil)) },
			"a body":         func(p *peer) { p.must(p.fr.WriteData(1, true, make([]byte, 100))) },
			"trailers": func(p *peer) {
				p.must(p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true}))
			},
			"a reset": func(p *peer) { p.must(p.fr.WriteRSTStream(1, http2.ErrCodeCancel)) },
			"much": func(p *peer) {
				for range 4 * streamWindow / specFrame {
					p.must(p.fr.WriteData(1, false, make([]byte, specFrame)))
				}
				p.must(p.fr.WriteData(1, true, nil))
			},
			"nothing": nil,
		} {
			p := x.peer(t)
			p.ask(1, "POST", "/", false)
			for !next[*http2.DataFrame](p).StreamEnded() {
			}
			told := make(chan http2.Frame)
			go func() {
				defer close(told)
				for {
					switch f, err := p.fr.ReadFrame(); f := f.(type) {
					case *http2.PingFrame:
						return
					case *http2.RSTStreamFrame, *http2.GoAwayFrame:
						told <- f
					default:
						if err != nil {
							t.Errorf("%s: %v", name, err)
							return
						}
					}
				}
			}()
			began := time.Now()
			if rest != nil {
				rest(p)
			} else if f, ok := (<-told).(*http2.RSTStreamFrame); !ok || f.ErrCode != http2.ErrCodeNo {
				t.Errorf("%s: %v", name, f)
			} else if waited := time.Since(began); waited != lingering {
				t.Errorf("told to stop after %v", waited)
			}
			if n := left(); n != 0 {
				t.Errorf("%s: %d streams are left", name, n)
			}
			time.Sleep(2 * lingering)
			p.must(p.fr.WritePing(false, [8]byte{}))
			for f := range told {
				t.Errorf("%s: told %v", name, f)
			}
			p.conn.NetConn().Close()
		}
		synctest.Wait()
	})
}

// TestTooMuchBody: a client keeps to the windows and to the length that it
// declared, or is stopped.
func TestTooMuchBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/read" {
				r.Body.Read(make([]byte, 1))
			}
			<-r.Context().Done()
		})
		for _, c := range []struct {
			length string
			send   int
			code   http2.ErrCode
		}{{"10", 11, http2.ErrCodeProtocol}, {"10", 9, http2.ErrCodeProtocol}, {"5000000", firstWindow + 1, http2.ErrCodeFlowControl}} {
			p := x.peer(t)
			p.ask(1, "POST", "/", false, "content-length", c.length)
			for ; c.send > specFrame; c.send -= specFrame {
				p.must(p.fr.WriteData(1, false, make([]byte, specFrame)))
			}
			p.must(p.fr.WriteData(1, c.length == "10", make([]byte, c.send)))
			if f := next[*http2.RSTStreamFrame](p); f.ErrCode != c.code {
				t.Errorf("%d bytes of %s: %v", c.send, c.length, f.ErrCode)
			}
			p.conn.NetConn().Close()
		}
		p := x.peer(t)
		const many = connWindow/streamWindow + 1
		for i := range uint32(many) {
			p.ask(1+2*i, "POST", "/read", false)
		}
		go func() {
			for i := range many * streamWindow / specFrame {
				if p.fr.WriteData(uint32(1+2*(i%many)), false, make([]byte, specFrame)) != nil {
					return
				}
			}
		}()
		if f := next[*http2.GoAwayFrame](p); f.ErrCode != http2.ErrCodeFlowControl {
			t.Errorf("more than the window: %v", f.ErrCode)
		}
		p.conn.NetConn().Close()
		synctest.Wait()
	})
}

// TestReadDeadline frees a handler that waits for a body.
func TestReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := errors.Join(rc.SetReadDeadline(time.Now().Add(time.Hour)), rc.EnableFullDuplex()); err != nil {
				t.Error(err)
			}
			buf := make([]byte, 10)
			n, err := r.Body.Read(buf)
			_, err2 := r.Body.Read(buf)
			if string(buf[:n]) != "some" || err != nil || !errors.Is(err2, os.ErrDeadlineExceeded) {
				t.Errorf("read %q, %v, then %v", buf[:n], err, err2)
			}
			w.WriteHeader(http.StatusRequestTimeout)
		})
		p := x.peer(t)
		p.ask(1, "POST", "/", false)
		p.must(p.fr.WriteData(1, false, []byte("some")))
		if f := next[*http2.MetaHeadersFrame](p); f.PseudoValue("status") != "408" {
			t.Errorf("got %v", f.Fields)
		}
		if f := next[*http2.RSTStreamFrame](p); f.ErrCode != http2.ErrCodeNo {
			t.Errorf("the rest of the body: %v", f)
		}
		p.conn.NetConn().Close()
		synctest.Wait()
	})
}

// TestShutdown: what has begun ends in good order, what is new goes elsewhere.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-end
			io.WriteString(w, "the end")
		})
		p := x.peer(t)
		p.ask(1, "GET", "/", true)
		next[*http2.MetaHeadersFrame](p)
		down := make(chan error, 1)
		go func() { down <- x.srv.Shutdown(context.Background()) }()
		if f := next[*http2.GoAwayFrame](p); f.LastStreamID != 1 || f.ErrCode != http2.ErrCodeNo {
			t.Errorf("got %v", f)
		}
		p.ask(3, "POST", "/", false)
		p.must(p.fr.WriteData(3, true, []byte("x")))
		time.Sleep(time.Minute)
		select {
		case err := <-down:
			t.Errorf("it is down amid a request: %v", err)
		default:
		}
		close(end)
		if f := next[*http2.DataFrame](p); f.StreamID != 1 || string(f.Data()) != "the end" || !f.StreamEnded() {
			t.Errorf("got %v %q", f, f.Data())
		}
		if _, err := p.fr.ReadFrame(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
	})
}

// TestSilentClient: a connection whose client does not even greet is closed.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t, func(w http.ResponseWriter, r *http.Request) {})
		raw, err := x.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		began := time.Now()
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("the end: %v", err)
		}
		if d := time.Since(began); d < greeting || d > greeting+time.Minute {
			t.Errorf("closed after %v", d)
		}
		raw.Close()
	})
}

// TestIdleConnection: a connection on which nothing is asked is closed after the
// server's IdleTimeout, no earlier, and one on which something is, is not.
func TestIdleConnection(t *testing.T) {
	const limit = 90 * time.Second
	half := func(p *peer) { // of a header
		p.must(p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: nil}))
	}
	for name, c := range map[string]struct {
		do     func(p *peer)
		closed time.Duration
	}{
		"nothing":   {func(p *peer) {}, limit},
		"a request": {func(p *peer) { time.Sleep(time.Minute); p.ask(1, "GET", "/", true) }, time.Minute + limit},
		"one a minute": {func(p *peer) {
			time.Sleep(time.Minute)
			p.ask(1, "GET", "/", true)
			time.Sleep(time.Minute)
			p.ask(3, "GET", "/", true)
		}, 2*time.Minute + limit},
		"a long one":             {func(p *peer) { p.ask(1, "GET", "/hour", true) }, time.Hour + limit},
		"a body that is late":    {func(p *peer) { p.ask(1, "POST", "/hour", false) }, time.Hour + lingering + limit},
		"half a header":          {half, limit},
		"a header in many parts": {func(p *peer) { half(p); p.must(p.fr.WriteContinuation(1, false, nil)) }, limit},
		"half a frame": {func(p *peer) {
			_, err := p.conn.Write([]byte{0, 0})
			p.must(err)
		}, limit},
		"pings": {func(p *peer) {
			for range 2 {
				time.Sleep(time.Minute)
				p.fr.WritePing(false, [8]byte{})
			}
		}, limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := start(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/hour" {
						time.Sleep(time.Hour)
					}
				}, func(s *http.Server) { s.IdleTimeout = limit })
				p := x.peer(t)
				began := time.Now()
				told := make(chan time.Duration, 2)
				go func() {
					for {
						f, err := p.fr.ReadFrame()
						if _, ok := f.(*http2.GoAwayFrame); ok || err != nil {
							told <- time.Since(began)
						}
						if err != nil {
							return
						}
					}
				}()
				c.do(p)
				if d := <-told; d != c.closed {
					t.Errorf("told to go after %v, want %v", d, c.closed)
				}
				if d := <-told; d != c.closed+lingering {
					t.Errorf("closed after %v, want %v", d, c.closed+lingering)
				}
				p.conn.NetConn().Close()
			})
		})
	}
	t.Run("one that does not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ended atomic.Bool
			x := start(t, func(w http.ResponseWriter, r *http.Request) {
				go func() {
					<-w.(*stream).c.ctx.Done()
					ended.Store(true)
				}()
			}, func(s *http.Server) { s.IdleTimeout = limit })
			p := x.peer(t)
			p.ask(1, "GET", "/", true)
			next[*http2.MetaHeadersFrame](p)
			go func() {
				for p.fr.WritePing(false, [8]byte{}) == nil {
				}
			}()
			time.Sleep(limit + 2*lingering)
			synctest.Wait()
			if !ended.Load() {
				t.Error("the connection is still there")
			}
			p.conn.NetConn().Close()
			synctest.Wait()
		})
	})
}

// TestIdleWatchHoldsNoBuffer: there are ten thousand of them.
func TestIdleWatchHoldsNoBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var streams sync.Map
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			streams.Store(w.(*stream), true)
			io.WriteString(w, "an event")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		p := x.peer(t)
		for id := range uint32(100) {
			p.ask(1+2*id, "GET", "/", true)
			next[*http2.DataFrame](p)
		}
		synctest.Wait()
		n := 0
		streams.Range(func(k, _ any) bool {
			st := k.(*stream)
			st.c.mu.Lock()
			defer st.c.mu.Unlock()
			if n++; st.buf != nil || st.in != nil || st.frozen != nil || st.c.out != nil || st.timers[reading] != nil || st.timers[writing] != nil {
				t.Errorf("it holds %+v", st)
			}
			return true
		})
		if n != 100 {
			t.Errorf("%d streams", n)
		}
		p.conn.NetConn().Close()
		synctest.Wait()
	})
}

// TestWorkersAreFew: after many requests at once, no more goroutines wait for
// the next than are of use, and none once the server is down.
func TestWorkersAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		var s atomic.Pointer[server]
		x := start(t, func(w http.ResponseWriter, r *http.Request) {
			s.Store(w.(*stream).c.s)
			<-end
		})
		p := x.peer(t)
		go io.Copy(io.Discard, p.conn)
		for id := range uint32(maxStreams) {
			p.ask(1+2*id, "GET", "/", true)
		}
		synctest.Wait()
		close(end)
		synctest.Wait()
		if n := s.Load().idle.Load(); n != maxIdle {
			t.Errorf("%d goroutines wait", n)
		}
		p.ask(2*maxStreams+1, "GET", "/", true)
		synctest.Wait()
		if n := s.Load().idle.Load(); n != maxIdle {
			t.Errorf("%d goroutines wait after one more request", n)
		}
		p.conn.NetConn().Close()
		if err := x.srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := s.Load().idle.Load(); n != 0 {
			t.Errorf("%d goroutines wait for a server that is down", n)
		}
	})
}

// TestHeaderTooLong is answered, and the connection goes on.
func TestHeaderTooLong(t *testing.T) {
	x := start(t, func(w http.ResponseWriter, r *http.Request) {})
	p := x.peer(t)
	next[*http2.SettingsFrame](p)
	p.buf.Reset()
	for _, field := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "test"}} {
		p.must(p.enc.WriteField(field))
	}
	for i := range 66 { // the last is too much
		p.must(p.enc.WriteField(hpack.HeaderField{Name: fmt.Sprint("x-long-", i), Value: strings.Repeat("a", 16000)}))
	}
	block := p.buf.Bytes()
	const piece = 4096
	p.must(p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:piece], EndStream: true}))
	for block = block[piece:]; len(block) > 0; {
		n := min(len(block), piece)
		p.must(p.fr.WriteContinuation(1, n == len(block), block[:n]))
		block = block[n:]
	}
	if f := next[*http2.MetaHeadersFrame](p); f.PseudoValue("status") != "431" {
		t.Errorf("got %v", f.Fields)
	}
	p.ask(3, "GET", "/", true)
	if f := next[*http2.MetaHeadersFrame](p); f.PseudoValue("status") != "200" || f.StreamID != 3 {
		t.Errorf("then %v", f.Fields)
	}
}

// TestCookiesInPieces: a cookie that comes in pieces, each of a byte when it is
// said again, is put together once, not once for each.
func TestCookiesInPieces(t *testing.T) {
	fields := make([]hpack.HeaderField, 20000)
	for i := range fields {
		fields[i] = hpack.HeaderField{Name: "cookie", Value: "a=b"}
	}
	var req http.Request
	n := testing.AllocsPerRun(1, func() {
		req.Header = http.Header{}
		if !takeFields(&req, fields) {
			t.Error("refused")
		}
	})
	if n > 1000 {
		t.Errorf("%v allocations for %d pieces", n, len(fields))
	}
	if got := req.Header["Cookie"]; len(got) != 1 || got[0] != strings.TrimSuffix(strings.Repeat("a=b; ", len(fields)), "; ") {
		t.Errorf("%d cookies", len(got))
	}
}

// TestLengthIsKept: a handler that writes more than it declared is told.
func TestLengthIsKept(t *testing.T) {
	x := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		if _, err := io.WriteString(w, "12345"); err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(w, "6"); !errors.Is(err, http.ErrContentLength) {
			t.Errorf("a sixth byte of five: %v", err)
		}
	})
	resp, err := x.client.Get("https://test/")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); string(got) != "12345" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// BenchmarkLongAnswer is 12 MB, client and all, on loopback in memory.
func BenchmarkLongAnswer(b *testing.B) {
	long := make([]byte, 12<<20)
	x := start(b, func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(long); i += 256 << 10 {
			w.Write(long[i : i+256<<10])
		}
	})
	b.SetBytes(int64(len(long)))
	for b.Loop() {
		resp, err := x.client.Get("https://test/")
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
