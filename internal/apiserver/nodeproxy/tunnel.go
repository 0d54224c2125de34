package nodeproxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"
)

const (
	tunnelPrefix        = "SPDY/3.1+" // of the subprotocol: SPDY within a WebSocket
	portForwardProtocol = "portforward.k8s.io"
)

// tunnel unwraps SPDY from the binary messages of a WebSocket, for kubelets
// that know only SPDY. The bytes within are not looked at.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request, to *url.URL, pod string) error {
	kubelet, err := p.upgrade(r.Context(), to, portForwardProtocol, pod)
	if err != nil {
		return err
	}
	defer kubelet.Close()
	ws, err := upgrader(tunnelPrefix+portForwardProtocol).Upgrade(w, r, nil)
	if err != nil {
		return nil // Upgrade has answered
	}
	client := &socket{conn: ws} // SPDY has pings of its own
	defer client.close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		kubelet.Close()
		ws.Close()
	})
	defer stop()
	go func() {
		defer cancel()
		unwrap(kubelet, ws)
	}()
	client.wrap(kubelet)
	return nil
}

// unwrap writes the content of messages to the kubelet.
func unwrap(kubelet net.Conn, ws *websocket.Conn) {
	for {
		kind, message, err := ws.NextReader()
		if err != nil {
			return
		}
		if kind != websocket.BinaryMessage {
			continue
		}
		if _, err := io.Copy(kubelet, message); err != nil {
			return
		}
	}
}

// wrap sends what the kubelet writes as messages.
func (s *socket) wrap(kubelet net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := kubelet.Read(buf)
		if n > 0 {
			_ = s.conn.SetWriteDeadline(time.Now().Add(pongTimeout))
			if s.write(websocket.BinaryMessage, buf[:n]) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
