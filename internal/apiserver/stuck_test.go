package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

// TestStuckClient: a client who has stopped reading is cut off; its handler
// ends and does not hold up the server.
func TestStuckClient(t *testing.T) {
	ended := make(chan struct{})
	h := apitest.New(t, apitest.Options{HTTP: true, Mutable: true, Paths: map[string]http.Handler{}})
	inner := h.HTTP.Config.Handler
	h.HTTP.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r)
		if strings.Contains(r.URL.RawQuery, "watch") {
			close(ended)
		}
	})
	resp, err := h.HTTP.Client().Get(h.HTTP.URL + cmPath + "?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c := h.Client("tester")
	create(t, c, configMap("a"))
	filler := strings.Repeat("x", 1000)
	for i := 0; ; i++ {
		select {
		case <-ended:
			return
		default:
		}
		if i > 100000 {
			t.Fatal("the handler still runs")
		}
		if _, err := c.Update(context.Background(), configMaps, configMap("a", "k", fmt.Sprint(i, filler))); err != nil {
			t.Fatal(err)
		}
	}
}
