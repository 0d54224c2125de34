package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/loop"
)

// wire is the way to an API server that can be down or replaced.
type wire struct {
	mu       sync.Mutex
	server   http.Handler // nil: down
	requests []string     // methods and answers
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Body != nil {
		defer r.Body.Close()
	}
	if w.server == nil {
		return nil, fmt.Errorf("connection refused")
	}
	rec := httptest.NewRecorder()
	w.server.ServeHTTP(rec, r)
	w.requests = append(w.requests, fmt.Sprintf("%s %d", r.Method, rec.Code))
	return rec.Result(), nil
}

func (w *wire) lead(to http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = to
}

// sent lists the requests since it was called last.
func (w *wire) sent() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := strings.Join(w.requests, ", ")
	w.requests = nil
	return s
}

// open is a loop with the gaps that a test says.
type open struct {
	mu   sync.Mutex
	gaps []loop.Gap
}

func (o *open) Gaps() []loop.Gap {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gaps
}

func (o *open) set(reasons ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gaps = nil
	for _, reason := range reasons {
		o.gaps = append(o.gaps, loop.Gap{Loop: "scheduler", Key: loop.Key{Namespace: "default", Name: "web"}, State: loop.Waiting, Reason: reason, Since: time.Now()})
	}
}

// alone runs a reporter, as a part that runs alone does.
func alone(ctx context.Context, w *wire, user, name string, l gapper) {
	list := &gapList{}
	list.add(l)
	r := &reporter{client: &http.Client{Transport: w}, url: "https://server" + GapsPath + "/" + user + "/" + name, part: "scheduler", gaps: list, log: slog.New(slog.DiscardHandler)}
	go r.run(ctx)
}

// told is what the API server tells: state, part and reason of each gap.
func told(r *reports) []string {
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, GapsPath, nil))
	var gaps []Gap
	if err := json.Unmarshal(rec.Body.Bytes(), &gaps); err != nil {
		return []string{err.Error()}
	}
	lines := []string{}
	for _, g := range gaps {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", g.Loop, g.State, g.Part, strings.SplitN(g.Reason, ":", 2)[0]))
	}
	return lines
}

func wantTold(t *testing.T, r *reports, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), told(r)); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
}

// pass lets time go by and everything settle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

const waits = "scheduler waiting scheduler/a no node"

// TestReport: a change is told within a second, nothing new is told as a
// heartbeat, and whoever stops says goodbye.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, w, l := newReports(&gapList{}), &wire{}, &open{}
		w.lead(server)
		ctx, cancel := context.WithCancel(t.Context())
		alone(ctx, w, pki.SchedulerUser, "a", l)
		pass(0)
		if got := w.sent(); got != "PUT 200" {
			t.Errorf("at the start: sent %q", got)
		}
		wantTold(t, server)

		l.set("no node")
		pass(time.Second)
		if got := w.sent(); got != "PUT 200" {
			t.Errorf("a second after a change: sent %q", got)
		}
		wantTold(t, server, waits)
		pass(9 * time.Second)
		if got := w.sent(); got != "" {
			t.Errorf("nothing changed: sent %q", got)
		}
		pass(time.Second)
		if got := w.sent(); got != "PUT 200" {
			t.Errorf("the heartbeat: sent %q", got)
		}
		// However often it changes, a second lies between two reports.
		for i := range 100 {
			l.set(fmt.Sprintf("change %d", i))
			pass(20 * time.Millisecond)
		}
		if got := strings.Count(w.sent(), "PUT"); got > 3 {
			t.Errorf("%d reports in two seconds", got)
		}
		l.set()
		pass(time.Second)
		wantTold(t, server)
		l.set("no node")
		pass(time.Second)
		cancel()
		pass(0)
		if got := w.sent(); !strings.HasSuffix(got, "DELETE 200") {
			t.Errorf("at the end: sent %q", got)
		}
		wantTold(t, server)
		pass(5 * time.Minute)
		wantTold(t, server)
	})
}

// TestReportAfterRestart: the API server keeps reports in memory only; within
// a heartbeat a new one knows them again.
func TestReportAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, l := &wire{}, &open{}
		l.set("no node")
		alone(ctx, w, pki.SchedulerUser, "a", l) // before there is a server
		pass(time.Minute)
		for range 2 {
			server := newReports(&gapList{})
			w.lead(server)
			pass(heartbeat)
			wantTold(t, server, waits)
			w.lead(nil)
			pass(time.Minute)
		}
		cancel()
		pass(time.Minute)
	})
}

// TestReportSilent: a part that was killed is a gap, until another copy of it
// speaks.
func TestReportSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newReports(&gapList{})
		server.expect(pki.SchedulerUser, "scheduler")
		server.expect(pki.ControllerManagerUser, "controllers")
		wantCondition(t, server, corev1.ConditionUnknown, "not heard of yet")
		pass(silentAfter - 1)
		wantTold(t, server) // they may yet come
		pass(1)
		wantCondition(t, server, corev1.ConditionFalse, "none reports: does `setpoint scheduler` run, and reach the API server?")
		wantTold(t, server, "controllers silent  none runs, or none reaches the API server", "scheduler silent  none runs, or none reaches the API server")
		delete(server.expected, pki.ControllerManagerUser)

		l := &open{}
		l.set("no node")
		copies := map[string]*wire{}
		run := func(name string) context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			copies[name] = &wire{server: server}
			alone(ctx, copies[name], pki.SchedulerUser, name, l)
			pass(0)
			return cancel
		}
		kill := func(name string) { copies[name].lead(nil) } // no word, not even goodbye
		defer run("a")()
		wantTold(t, server, waits)
		wantCondition(t, server, corev1.ConditionTrue, "ok")
		defer run("b")()
		wantTold(t, server, waits) // both say the same
		kill("a")
		pass(5 * time.Minute)
		wantTold(t, server, "scheduler waiting scheduler/b no node")
		wantCondition(t, server, corev1.ConditionTrue, "ok")
		kill("b")
		pass(silentAfter + heartbeat)
		wantCondition(t, server, corev1.ConditionFalse, "no word since 2000-01-01T00")
		wantTold(t, server, "scheduler silent  no word since 2000-01-01T00")
		pass(10 * time.Minute)
		wantTold(t, server, "scheduler silent  no word since 2000-01-01T00")
		stop := run("c")
		wantTold(t, server, "scheduler waiting scheduler/c no node")
		stop()
		pass(silentAfter - 1)
		wantTold(t, server)
		pass(heartbeat)
		wantTold(t, server, "scheduler silent  none runs, or none reaches the API server")
	})
}

// wantCondition looks at what the component status of the scheduler says.
func wantCondition(t *testing.T, r *reports, status corev1.ConditionStatus, begins string) {
	t.Helper()
	got := r.condition(pki.SchedulerUser)
	if got.Status != status || !strings.HasPrefix(got.Message+got.Error, begins) {
		t.Errorf("the scheduler's condition is %+v, want %s, %q", got, status, begins)
	}
}

// TestReportOfDeletedNode: nobody waits for a node that was deleted.
func TestReportOfDeletedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, w := newReports(&gapList{}), &wire{}
		gone := false
		server.gone = func(user string) bool { return gone && user == pki.NodeUserPrefix+"one" }
		w.lead(server)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		alone(ctx, w, pki.NodeUserPrefix+"one", "a", &open{})
		pass(0)
		w.lead(nil)
		pass(5 * time.Minute)
		wantTold(t, server, "scheduler silent  no word since 2000-01-01T00")
		gone = true
		wantTold(t, server)
		gone = false
		wantTold(t, server)
	})
}

// TestReportBounds: what a part may say is bounded, and so is what all say.
func TestReportBounds(t *testing.T) {
	server := newReports(&gapList{})
	send := func(method, path string, body []byte) int {
		rec := httptest.NewRecorder()
		server.ServeHTTP(rec, httptest.NewRequest(method, path, bytes.NewReader(body)))
		return rec.Code
	}
	path := GapsPath + "/" + pki.SchedulerUser + "/a"
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"PUT", path, `{"part":"scheduler"}`, 200},
		{"PUT", path, `{"part":""}`, 400},
		{"PUT", path, `{`, 400},
		{"PUT", path, `{"part":"scheduler","gaps":"` + strings.Repeat("x", maxReport) + `"}`, 413},
		{"POST", path, `{"part":"scheduler"}`, 405},
		{"PUT", GapsPath, `{"part":"scheduler"}`, 405},
		{"PUT", GapsPath + "/", `{"part":"scheduler"}`, 404},
		{"PUT", GapsPath + "/" + pki.SchedulerUser, `{"part":"scheduler"}`, 404},
		{"PUT", path + "/b", `{"part":"scheduler"}`, 404},
		{"GET", GapsPath, "", 200},
		{"DELETE", path, "", 200},
		{"DELETE", path, "", 200},
	} {
		if got := send(c.method, c.path, []byte(c.body)); got != c.want {
			t.Errorf("%s %s: status %d, want %d", c.method, c.path, got, c.want)
		}
	}
	if server.size != 0 || len(server.copies) != 0 {
		t.Errorf("after the goodbye %d bytes and %d copies are kept", server.size, len(server.copies))
	}
	large, err := json.Marshal(report{"scheduler", []Gap{{Loop: "l", Reason: strings.Repeat("x", maxReport-1000)}}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; n < 2*maxReports/maxReport; n++ {
		if code := send("PUT", fmt.Sprintf("%s%d", path, n), large); code == http.StatusTooManyRequests {
			break
		} else if code != 200 {
			t.Fatalf("report %d: status %d", n, code)
		}
	}
	if n*len(large) > maxReports || n < maxReports/maxReport-1 {
		t.Errorf("%d reports of %d bytes were kept", n, len(large))
	}
	for range 3 { // one's own may always be replaced
		if code := send("PUT", path+"0", large); code != 200 {
			t.Errorf("a report in the place of another: status %d", code)
		}
	}
	for i := range n {
		send("DELETE", fmt.Sprintf("%s%d", path, i), nil)
	}
	if server.size != 0 {
		t.Errorf("%d bytes are counted for nothing", server.size)
	}
}

// TestReportIsAccepted: however much is open, the report is one that the API
// server takes.
func TestReportIsAccepted(t *testing.T) {
	l := &open{}
	for range 600 {
		l.gaps = append(l.gaps, loop.Gap{Loop: "scheduler", Key: loop.Key{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("n", 253)},
			State: loop.Failing, On: strings.Repeat("ü", 1000), Reason: strings.Repeat("\"ü", 10_000), Since: time.Now()})
	}
	list := &gapList{}
	list.add(l)
	body := (&reporter{part: "scheduler", gaps: list}).body()
	if len(body) > maxReport {
		t.Fatalf("a report of %d bytes", len(body))
	}
	var r report
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	last := r.Gaps[len(r.Gaps)-1]
	if len(r.Gaps) != maxReported+1 || last.Reason != "100 more gaps are open" {
		t.Errorf("%d gaps, the last says %q", len(r.Gaps), last.Reason)
	}
	server := newReports(&gapList{})
	rec := httptest.NewRecorder()
	server.ServeHTTP(rec, httptest.NewRequest("PUT", GapsPath+"/u/c", io.NopCloser(bytes.NewReader(body))))
	if rec.Code != 200 {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
}
