package nodeproxy

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// Subprotocols in which logs come over a WebSocket, a message for each piece
// as it was read: as it is, or in base64 for those who take text only. Who asks
// for none gets the first.
const (
	logBinary = "binary.k8s.io"
	logBase64 = "base64.binary.k8s.io"
)

// logSocket sends a log over the client's WebSocket, and closes it when the
// log ends.
func (p *Proxy) logSocket(w http.ResponseWriter, r *http.Request, to *url.URL, check func(*http.Response) error) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return err
	}
	resp, err := p.kubelets.RoundTrip(req)
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close()
	if err := check(resp); err != nil {
		return err
	}
	up := upgrader(logBinary)
	up.Subprotocols = append(up.Subprotocols, logBase64)
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return nil // the upgrader answered
	}
	s := newSocket(conn)
	defer s.close()
	go s.ping(ctx)
	go func() {
		defer cancel() // the client is gone: the log is read for nobody
		for {
			if _, _, err := conn.NextReader(); err != nil {
				return
			}
			_ = conn.SetReadDeadline(time.Now().Add(pongTimeout))
		}
	}()
	s.writeLog(resp.Body)
	return nil
}

func (s *socket) writeLog(from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			kind, data := websocket.BinaryMessage, buf[:n]
			if s.conn.Subprotocol() == logBase64 {
				kind, data = websocket.TextMessage, base64.StdEncoding.AppendEncode(nil, data)
			}
			if s.write(kind, data) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wantsSocket tells whether a request is for a WebSocket.
func wantsSocket(r *http.Request) bool {
	return isUpgrade(r) && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}
