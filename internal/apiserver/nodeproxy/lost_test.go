package nodeproxy

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// deadStream says what it has and ends.
type deadStream struct {
	httpstream.Stream
	io.Reader
}

func (s deadStream) Read(p []byte) (int, error)  { return s.Reader.Read(p) }
func (s deadStream) Write(p []byte) (int, error) { return len(p), nil }

// deadConnection is one that is closed already.
type deadConnection struct{ httpstream.Connection }

func (deadConnection) Close() error { return nil }
func (deadConnection) CloseChan() <-chan bool {
	c := make(chan bool)
	close(c)
	return c
}

// TestKubeletGoesAway: the client is told when a command's status never came,
// and else gets that status alone.
func TestKubeletGoesAway(t *testing.T) {
	for name, c := range map[string]struct{ said, want string }{
		"before the status": {"", "the connection to the node was lost"},
		"after the status":  {`{"status":"Success"}`, `{"status":"Success"}`},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ws, err := upgrader(protocolV5).Upgrade(w, r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				client := newSocket(ws)
				defer client.close()
				client.relay(r.Context(), deadConnection{}, &remote{errors: deadStream{Reader: strings.NewReader(c.said)}, stdout: deadStream{Reader: strings.NewReader("half")}})
			}))
			defer server.Close()
			ws, _, err := (&websocket.Dialer{Subprotocols: []string{protocolV5}}).Dial("ws"+strings.TrimPrefix(server.URL, "http"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer ws.Close()
			ws.SetReadDeadline(time.Now().Add(time.Minute))
			got := map[byte]string{}
			for {
				_, message, err := ws.ReadMessage()
				if err != nil {
					if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
						t.Errorf("the end is %v", err)
					}
					break
				}
				got[message[0]] += string(message[1:])
			}
			if got[channelStdout] != "half" {
				t.Errorf("output is %q", got[channelStdout])
			}
			var status metav1.Status
			if err := json.Unmarshal([]byte(got[channelError]), &status); err != nil || !strings.Contains(got[channelError], c.want) {
				t.Errorf("status is %q (%v), want %q", got[channelError], err, c.want)
			}
			if failed := status.Status == metav1.StatusFailure; failed != (c.said == "") {
				t.Errorf("status is %+v", status)
			}
		})
	}
}
