// Package health serves what is asked about the server itself: /livez, /readyz
// and /healthz with their checks, /version and /metrics.
// https://kubernetes.io/docs/reference/using-api/health-checks/
//
// Checks are named functions that return nil when all is well. They run when
// somebody asks, one after the other, so they must be quick and read what is
// known, not try things out. A Checks may be used from many goroutines; checks
// may be added at any time.
package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Check is one thing that must be well.
type Check struct {
	Name string
	// Live makes it part of /livez: a failure that only a restart mends.
	Live bool
	Test func(ctx context.Context) error
}

// ErrStarting is what a check may fail with, or wrap, as long as what it looks
// at has yet to start. Whoever waits for a server asks until then.
var ErrStarting = errors.New("it has yet to start")

// Checks are all the checks. The zero value has ping only.
type Checks struct {
	// Logger is told why a check failed; clients are not, since the paths are
	// open to everybody.
	Logger *slog.Logger

	mu struct {
		sync.RWMutex
		list []Check
	}
}

// Add adds checks.
func (c *Checks) Add(checks ...Check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.list = append(c.mu.list, checks...)
}

// of lists the checks of an endpoint.
func (c *Checks) of(endpoint string) []Check {
	list := []Check{{Name: "ping", Live: true, Test: func(context.Context) error { return nil }}}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, check := range c.mu.list {
		if check.Live || endpoint != "livez" {
			list = append(list, check)
		}
	}
	return list
}

// Paths returns the handlers of the three endpoints and of the checks below
// them ("/readyz/ping").
func (c *Checks) Paths() map[string]http.Handler {
	out := map[string]http.Handler{}
	for _, endpoint := range []string{"livez", "readyz", "healthz"} {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(endpoint, w, r) })
		out["/"+endpoint], out["/"+endpoint+"/"] = h, h
	}
	return out
}

func (c *Checks) serve(endpoint string, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	list := c.of(endpoint)
	if name := strings.Trim(strings.TrimPrefix(r.URL.Path, "/"+endpoint), "/"); name != "" {
		c.serveOne(endpoint, name, list, w, r)
		return
	}
	query := r.URL.Query()
	exclude := query["exclude"]
	var text bytes.Buffer
	var failed []string
	for _, check := range list {
		if i := slices.Index(exclude, check.Name); i >= 0 {
			exclude = slices.DeleteFunc(exclude, func(s string) bool { return s == check.Name })
			fmt.Fprintf(&text, "[+]%s excluded: ok\n", check.Name)
			continue
		}
		if err := check.Test(r.Context()); err != nil {
			c.log(endpoint, check.Name, err)
			failed = append(failed, check.Name)
			fmt.Fprintf(&text, "[-]%s failed: reason withheld\n", check.Name)
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok\n", check.Name)
	}
	if len(exclude) > 0 {
		fmt.Fprintf(&text, "warn: some health checks cannot be excluded: no matches for %s\n", quoted(exclude))
	}
	header(w)
	switch _, verbose := query["verbose"]; {
	case len(failed) > 0:
		fmt.Fprintf(&text, "%s check failed\n", endpoint)
		http.Error(w, text.String(), http.StatusInternalServerError)
	case verbose:
		fmt.Fprintf(&text, "%s check passed\n", endpoint)
		_, _ = w.Write(text.Bytes())
	default:
		_, _ = w.Write([]byte("ok"))
	}
}

func (c *Checks) serveOne(endpoint, name string, list []Check, w http.ResponseWriter, r *http.Request) {
	for _, check := range list {
		if check.Name != name {
			continue
		}
		header(w)
		if err := check.Test(r.Context()); err != nil {
			c.log(endpoint, name, err)
			http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("ok"))
		return
	}
	http.NotFound(w, r)
}

func header(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, private")
}

func (c *Checks) log(endpoint, check string, err error) {
	if c.Logger == nil {
		return
	}
	level := slog.LevelWarn
	if errors.Is(err, ErrStarting) {
		level = slog.LevelInfo
	}
	c.Logger.Log(context.Background(), level, "health check failed", "endpoint", endpoint, "check", check, "err", err)
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, ", ")
}
