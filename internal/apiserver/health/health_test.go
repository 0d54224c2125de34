package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
)

func TestEndpoints(t *testing.T) {
	sick := errors.New("secret detail")
	var storeErr, cacheErr error
	c := &Checks{}
	c.Add(
		Check{Name: "store", Live: true, Test: func(context.Context) error { return storeErr }},
		Check{Name: "cache", Test: func(context.Context) error { return cacheErr }},
	)
	for _, tc := range []struct {
		name         string
		store, cache error
		url          string
		code         int
		body         string
	}{
		{"well", nil, nil, "/readyz", 200, "ok"},
		{"verbose", nil, nil, "/readyz?verbose", 200, "[+]ping ok\n[+]store ok\n[+]cache ok\nreadyz check passed\n"},
		{"verbose with a value", nil, nil, "/livez?verbose=1", 200, "[+]ping ok\n[+]store ok\nlivez check passed\n"},
		{"healthz", nil, nil, "/healthz", 200, "ok"},
		{"not ready", nil, sick, "/readyz", 500, "[+]ping ok\n[+]store ok\n[-]cache failed: reason withheld\nreadyz check failed\n\n"},
		{"alive but not ready", nil, sick, "/livez", 200, "ok"},
		{"not alive", sick, nil, "/livez", 500, "[+]ping ok\n[-]store failed: reason withheld\nlivez check failed\n\n"},
		{"excluded", nil, sick, "/readyz?verbose&exclude=cache", 200, "[+]ping ok\n[+]store ok\n[+]cache excluded: ok\nreadyz check passed\n"},
		{"excluded in vain", nil, nil, "/readyz?verbose&exclude=x", 200, "[+]ping ok\n[+]store ok\n[+]cache ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nreadyz check passed\n"},
		{"one", nil, nil, "/readyz/store", 200, "ok"},
		{"one that is not well", sick, nil, "/readyz/store", 500, "internal server error: secret detail\n"},
		{"one that is not there", nil, nil, "/readyz/none", 404, "404 page not found\n"},
		{"one of another endpoint", nil, nil, "/livez/cache", 404, "404 page not found\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			storeErr, cacheErr = tc.store, tc.cache
			r := httptest.NewRequest("GET", tc.url, nil)
			key := r.URL.Path
			if strings.Count(key, "/") > 1 {
				key = key[:strings.LastIndex(key, "/")+1]
			}
			w := httptest.NewRecorder()
			c.Paths()[key].ServeHTTP(w, r)
			if diff := cmp.Diff(tc.body, w.Body.String()); w.Code != tc.code || diff != "" {
				t.Errorf("code %d, want %d; body (-want +got):\n%s", w.Code, tc.code, diff)
			}
		})
	}
	w := httptest.NewRecorder()
	c.Paths()["/livez"].ServeHTTP(w, httptest.NewRequest("POST", "/livez", nil))
	if w.Code != 405 {
		t.Errorf("POST: %d, want 405", w.Code)
	}
}

// A failure is told, but that of a server which starts is no warning.
func TestFailuresAreTold(t *testing.T) {
	for err, level := range map[error]string{errors.New("sick"): "WARN", fmt.Errorf("store: %w", ErrStarting): "INFO"} {
		var log strings.Builder
		c := &Checks{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		c.Add(Check{Name: "store", Test: func(context.Context) error { return err }})
		w := httptest.NewRecorder()
		c.Paths()["/readyz"].ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		if w.Code != 500 || !strings.Contains(log.String(), "level="+level) || !strings.Contains(log.String(), err.Error()) {
			t.Errorf("%v: %d, told %q", err, w.Code, log.String())
		}
	}
}

func TestVersion(t *testing.T) {
	w := httptest.NewRecorder()
	Version(Build{Version: "v0.1.0-3-gabc+x", Commit: "abc"}).ServeHTTP(w, httptest.NewRequest("GET", "/version", nil))
	var got apiversion.Info
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Major != "1" || got.Minor != "37" || got.GitCommit != "abc" || got.GitTreeState != "clean" {
		t.Errorf("got %+v", got)
	}
	v, err := version.ParseSemantic(got.GitVersion)
	if err != nil {
		t.Fatalf("%q: %v", got.GitVersion, err)
	}
	if v.LessThan(version.MustParseSemantic("v1.37.2")) || v.BuildMetadata() != "setpoint.v0.1.0-3-gabc-x" || v.PreRelease() != "" {
		t.Errorf("%q is not 1.37.2 with build metadata", got.GitVersion)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	n := prometheus.NewCounter(prometheus.CounterOpts{Name: "turns_total", Help: "h"})
	reg.MustRegister(n)
	n.Add(3)
	w := httptest.NewRecorder()
	Metrics(reg).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if !strings.Contains(w.Body.String(), "turns_total 3\n") {
		t.Errorf("got %s", w.Body)
	}
}
