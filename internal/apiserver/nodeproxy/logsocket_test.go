package nodeproxy

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// TestLogSocket: a log over a WebSocket comes whole, in the form asked for, and
// ends with a proper goodbye; a refusal is a refusal of the upgrade.
func TestLogSocket(t *testing.T) {
	f := newFixture(t)
	at := "ws" + strings.TrimPrefix(f.url, "http") + "/api/v1/namespaces/web/pods/"
	for _, tc := range []struct{ offers, agreed string }{{"", ""}, {logBinary, logBinary}, {logBase64, logBase64}, {"v5.channel.k8s.io," + logBase64, logBase64}} {
		d := websocket.Dialer{}
		if tc.offers != "" {
			d.Subprotocols = strings.Split(tc.offers, ",")
		}
		conn, _, err := d.Dial(at+"x/log?container=main", nil)
		if err != nil {
			t.Errorf("%q: %v", tc.offers, err)
			continue
		}
		if got := conn.Subprotocol(); got != tc.agreed {
			t.Errorf("%q: agreed on %q, want %q", tc.offers, got, tc.agreed)
		}
		var log strings.Builder
		for {
			kind, message, err := conn.ReadMessage()
			if err != nil {
				if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
					t.Errorf("%q: ends with %v", tc.offers, err)
				}
				break
			}
			if tc.agreed == logBase64 {
				if message, err = base64.StdEncoding.DecodeString(string(message)); err != nil || kind != websocket.TextMessage {
					t.Fatalf("%q: a message of kind %d: %v", tc.offers, kind, err)
				}
			}
			log.Write(message)
		}
		conn.Close()
		if got := log.String(); got != "line 0\nline 1\nline 2\n" {
			t.Errorf("%q: got %q", tc.offers, got)
		}
	}
	for path, want := range map[string]int{"many/log": 400, "none/log": 404, "many/log?container=broken": 400} {
		_, resp, err := websocket.DefaultDialer.Dial(at+path, nil)
		if err == nil || resp == nil || resp.StatusCode != want {
			t.Errorf("%s: got %v and %v, want status %d", path, resp, err, want)
		}
	}
}
