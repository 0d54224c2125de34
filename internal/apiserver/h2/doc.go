// Package h2 serves HTTP/2.
//
// Every client of the API speaks HTTP/2, and most of what a short answer, a long
// list or an event for many watchers cost was golang.org/x/net/http2's way of
// sending: each frame goes from the handler to the connection's goroutine, from
// there to one of its own, and back. Here there is one goroutine that reads a
// connection. Handlers write frames into the connection's buffer themselves; who
// finds that nobody sends it, sees to that.
//
//	reads:  TLS --> conn.serve --> stream.in --> body.Read (handler)
//	writes: handler --> stream.sendLocked --> conn.out --> conn.flush --> TLS
//
// So what many streams have to say at one time leaves in full TLS records and
// few system calls. Framing and header compression are golang.org/x/net's.
//
// Use: Configure(srv) before srv.ServeTLS. Handlers get what net/http gives
// them, http.ResponseController's deadlines included, but neither Hijack nor
// Push. Of the server's timeouts, IdleTimeout is heeded. Section numbers are
// those of RFC 9113.
//
// Concurrency: conn.mu guards a connection with its streams; it is never held
// while the network is waited for. A handler that writes waits for the client's
// flow control, and for room in the buffer, until its deadline.
//
// Failure: an error of a stream resets it, one of a connection ends it with
// GOAWAY; either way the contexts of the requests end, and writes fail. A client
// that does not read is not read from when its buffer is full.
//
// Testing: answers are compared with those of net/http's own server, hostile
// clients are played with golang.org/x/net's framer. h2spec 2.6 passes, strictly.
package h2
