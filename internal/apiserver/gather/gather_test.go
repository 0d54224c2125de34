package gather

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOrder: what many writes wrote arrives whole and in order, in fewer.
func TestOrder(t *testing.T) {
	near, far := net.Pipe()
	c := wrap(near)
	var want bytes.Buffer
	got := make(chan []byte)
	go func() {
		data, _ := io.ReadAll(far)
		got <- data
	}()
	for i := range 10000 {
		line := fmt.Sprintln("line", i, strings.Repeat("x", i%200))
		want.WriteString(line)
		if n, err := io.WriteString(c, line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if data := <-got; !bytes.Equal(data, want.Bytes()) {
		t.Errorf("%d bytes arrived, %d were written", len(data), want.Len())
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("written after: %v", err)
	}
}

// counted counts the calls.
type counted struct {
	net.Conn
	writes int
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}

// TestTogether: writes leave with one call, behind those from before, and are
// sent when Together returns.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		under := &counted{Conn: near}
		c := wrap(under)
		var got bytes.Buffer
		done := make(chan struct{})
		go func() { io.Copy(&got, far); close(done) }()
		var want strings.Builder
		for i := range 100 {
			before := under.writes
			if i%10 == 0 {
				fmt.Fprintln(&want, "alone", i)
				fmt.Fprintln(c, "alone", i)
				synctest.Wait()
				before++
			}
			err := Together(c, func() error {
				for j := range 10 {
					fmt.Fprintln(&want, i, j)
					if _, err := fmt.Fprintln(c, i, j); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := under.writes - before; n != 1 {
				t.Errorf("%d calls", n)
			}
		}
		far.Close()
		<-done
		if got.String() != want.String() {
			t.Errorf("got %d bytes of %d", got.Len(), want.Len())
		}
		if err := Together(c, func() error { _, err := io.WriteString(c, "x"); return err }); err == nil {
			t.Error("to nobody: no error")
		}
		if err := Together(c, func() error { return io.ErrShortBuffer }); err != io.ErrShortBuffer {
			t.Errorf("f's own error: %v", err)
		}
		c.Close()
	})
}

// TestTogetherWaits: while somebody else's write still waits for the network,
// Together does not return, or who calls it again and again would fill the
// memory.
func TestTogetherWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := wrap(near)
		io.WriteString(c, "alone")
		synctest.Wait()
		rounds := 0
		var failed error
		go func() {
			for failed == nil && rounds < 100 {
				failed = Together(c, func() error { _, err := c.Write(make([]byte, 10<<10)); return err })
				rounds++
			}
		}()
		synctest.Wait()
		if rounds > 0 {
			t.Errorf("%d rounds were taken in that nobody reads", rounds)
		}
		io.CopyN(io.Discard, far, int64(len("alone")+10<<10))
		synctest.Wait()
		if rounds != 1 {
			t.Errorf("%d rounds after one was read", rounds)
		}
		far.Close()
		synctest.Wait()
		if failed == nil {
			t.Error("it still waits")
		}
		c.Close()
	})
}

// TestReaderWhoStands: writers wait once the buffer is full, and go on, or fail
// with the connection.
func TestReaderWhoStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := wrap(near)
		written := 0
		var failed error
		go func() {
			for failed == nil {
				var n int
				n, failed = c.Write(make([]byte, 10<<10))
				written += n
			}
		}()
		synctest.Wait()
		if written < limit || written > 3*limit {
			t.Errorf("%d bytes were taken in", written)
		}
		before := written
		io.CopyN(io.Discard, far, limit)
		synctest.Wait()
		if written < before+limit/2 {
			t.Errorf("the writer does not go on: %d bytes, then %d", before, written)
		}
		c.SetWriteDeadline(time.Now())
		synctest.Wait()
		if failed == nil {
			t.Fatal("the writer still waits")
		}
		c.Close()
		far.Close()
	})
}

// TestCloseIsBounded: a connection whose client reads nothing closes all the
// same.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := wrap(near)
		io.WriteString(c, "last words")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.Sleep(lastWords + time.Second)
		synctest.Wait()
		if data, err := io.ReadAll(far); len(data) > 0 || err != nil {
			t.Errorf("after %v: %q, %v", time.Since(start), data, err)
		}
	})
}

// TestServer: HTTP/1.1 and HTTP/2 over TLS, many requests at once.
func TestServer(t *testing.T) {
	long := strings.Repeat("0123456789", 100000)
	for _, h2 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, long[:len(long)-len(r.URL.Path)])
		}))
		s.EnableHTTP2 = h2
		s.Listener = Listener(s.Listener)
		s.StartTLS()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				path := "/" + strings.Repeat("p", i)
				resp, err := s.Client().Get(s.URL + path)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				data, err := io.ReadAll(resp.Body)
				if err != nil || string(data) != long[:len(long)-len(path)] || (resp.ProtoMajor == 2) != h2 {
					t.Errorf("%s: %d bytes by %s, %v", path, len(data), resp.Proto, err)
				}
			})
		}
		wg.Wait()
		s.Close()
	}
}

// BenchmarkLongAnswer is 12 MB over HTTP/2 and TLS on loopback, client and all.
func BenchmarkLongAnswer(b *testing.B) {
	long := make([]byte, 12<<20)
	for _, gathered := range []bool{false, true} {
		b.Run(fmt.Sprint("gathered=", gathered), func(b *testing.B) {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for i := 0; i < len(long); i += 256 << 10 {
					w.Write(long[i : i+256<<10])
				}
			}))
			s.EnableHTTP2 = true
			if gathered {
				s.Listener = Listener(s.Listener)
			}
			s.StartTLS()
			defer s.Close()
			s.Client().Transport.(*http.Transport).TLSClientConfig.CipherSuites = []uint16{tls.TLS_AES_128_GCM_SHA256}
			b.SetBytes(int64(len(long)))
			for b.Loop() {
				resp, err := s.Client().Get(s.URL)
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}

// TestDeadlineThatIsOver: what was written before arrives, what comes after is
// refused, and a later deadline lets writes in again.
func TestDeadlineThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := wrap(near)
		if _, err := io.WriteString(c, "last words"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the far side does not read yet
		if err := c.SetWriteDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "too late"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
		time.Sleep(lastWords / 2)
		buf := make([]byte, 100)
		if n, err := far.Read(buf); err != nil || string(buf[:n]) != "last words" {
			t.Errorf("got %q, %v", buf[:n], err)
		}
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "again"); err != nil {
			t.Errorf("without a deadline: %v", err)
		}
		if n, err := far.Read(buf); err != nil || string(buf[:n]) != "again" {
			t.Errorf("got %q, %v", buf[:n], err)
		}
		c.Close()
		far.Close()
	})
}

// TestHalfClosed: whoever ends his half of a TLS connection, as a proxy of
// streams does when its far side is done, is heard to the end.
func TestHalfClosed(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.StartTLS()
	defer srv.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	secured := tls.NewListener(Listener(l), &tls.Config{Certificates: srv.TLS.Certificates})
	const n = 200
	want := strings.Repeat("hello\n", 100)
	go func() {
		for range n {
			c, err := secured.Accept()
			if err != nil {
				return
			}
			go func() {
				for range 100 {
					io.WriteString(c, "hello\n")
				}
				c.(*tls.Conn).CloseWrite()
				io.Copy(io.Discard, c) // until the client is gone
				c.Close()
			}()
		}
	}()
	for i := range n {
		c, err := tls.Dial("tcp", l.Addr().String(), srv.Client().Transport.(*http.Transport).TLSClientConfig)
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(time.Minute))
		got, err := io.ReadAll(c)
		c.Close()
		if string(got) != want || err != nil {
			t.Fatalf("connection %d: %d bytes of %d, %v", i, len(got), len(want), err)
		}
	}
}
