package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// silentAfter is how long nothing need be heard of a part until it counts
	// as silent: three heartbeats.
	silentAfter = 3 * heartbeat
	// maxReport bounds one report, maxReports all that are kept, in bytes.
	maxReport  = 1 << 20
	maxReports = 32 << 20
	// partCost is what a part costs beside its report.
	partCost = 512
)

// report is what a part that runs alone tells: PUT GapsPath/USER/COPY. It
// replaces the copy's last one, and is repeated as a heartbeat; DELETE says
// goodbye.
type report struct {
	Part string `json:"part"` // as its command is called: "controllers"
	Gaps []Gap  `json:"gaps"`
}

// reports are the gaps of the parts that run alone, by what they reported
// last. They lie in memory only: after a restart of the API server each part
// reports again with its next heartbeat.
//
// A copy of which nothing is heard is given up for dead. What it said is
// forgotten then, for nobody knows whether it is still so; that it is silent
// is a gap of its own, until another copy of the same part speaks.
type reports struct {
	own *gapList // of this very process
	// gone tells that a part need not be waited for any more; nil: none.
	gone func(user string) bool

	mu       sync.Mutex
	copies   map[copyKey]*copyReport // guarded by mu
	size     int                     // guarded by mu; of all copies, in bytes
	expected map[string]expectation  // guarded by mu; by user
}

// copyKey names a process: as whom it reports, and which of several.
type copyKey struct{ user, copy string }

func (k copyKey) String() string { return k.user + "/" + k.copy }

type copyReport struct {
	report
	size  int
	heard time.Time
}

// expectation is a part without which a cluster does not work.
type expectation struct {
	part  string
	since time.Time // it is waited for
}

func newReports(own *gapList) *reports {
	return &reports{own: own, copies: map[copyKey]*copyReport{}, expected: map[string]expectation{}}
}

// expect says that a part must report: if none does, that is a gap.
func (r *reports) expect(user, part string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected[user] = expectation{part, time.Now()}
}

// ServeHTTP serves GET of GapsPath, and PUT and DELETE of what lies below. Who
// may do so was decided before (see reporters).
func (r *reports) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	key, ok := parseReportPath(req.URL.Path)
	switch {
	case !ok && req.URL.Path == GapsPath && (req.Method == http.MethodGet || req.Method == http.MethodHead):
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(r.all())
	case ok && req.Method == http.MethodPut:
		if err := r.put(key, http.MaxBytesReader(w, req.Body, maxReport)); err != nil {
			refuse(w, err)
		}
	case ok && req.Method == http.MethodDelete:
		r.goodbye(key)
	case ok || req.URL.Path == GapsPath:
		refuse(w, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "gaps"}, strings.ToLower(req.Method)))
	default:
		refuse(w, apierrors.NewGenericServerResponse(http.StatusNotFound, strings.ToLower(req.Method), schema.GroupResource{}, "", "a report's path is "+GapsPath+"/USER/COPY", 0, true))
	}
}

// refuse answers with the Status of an error.
func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	json.NewEncoder(w).Encode(status)
}

// parseReportPath takes GapsPath/USER/COPY apart.
func parseReportPath(path string) (copyKey, bool) {
	rest, ok := strings.CutPrefix(path, GapsPath+"/")
	if !ok {
		return copyKey{}, false
	}
	user, name, ok := strings.Cut(rest, "/")
	return copyKey{user, name}, ok && user != "" && name != "" && len(rest) <= 512 && !strings.Contains(name, "/")
}

func (r *reports) put(key copyKey, body io.Reader) *apierrors.StatusError {
	data, err := io.ReadAll(body)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a report has at most %d bytes", maxReport))
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	var in report
	if err := json.Unmarshal(data, &in); err != nil {
		return apierrors.NewBadRequest("report: " + err.Error())
	}
	if in.Part == "" || len(in.Part) > 63 {
		return apierrors.NewBadRequest(fmt.Sprintf("report: part %q: must have 1 to 63 characters", in.Part))
	}
	size := len(data) + partCost
	for i := range in.Gaps {
		in.Gaps[i].Part = in.Part + "/" + key.copy
		size += len(in.Gaps[i].Part)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.sweepLocked(now)
	had := r.copies[key]
	if had != nil {
		size -= had.size
	}
	if r.size+size > maxReports {
		return apierrors.NewTooManyRequests(fmt.Sprintf("the reports of all parts together have at most %d bytes", maxReports), int(heartbeat/time.Second))
	}
	r.size += size
	if had != nil {
		size += had.size
	}
	r.copies[key] = &copyReport{in, size, now}
	return nil
}

func (r *reports) goodbye(key copyKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(key)
}

// forgetLocked drops a copy. If it was the last of a part that is needed, that
// one is waited for from when it was heard last.
func (r *reports) forgetLocked(key copyKey) {
	c := r.copies[key]
	if c == nil {
		return
	}
	if e, ok := r.expected[key.user]; ok {
		r.expected[key.user] = expectation{e.part, c.heard}
	}
	r.size -= c.size
	delete(r.copies, key)
}

// sweepLocked forgets what silent copies said, and the copies themselves where
// another of the same part speaks.
func (r *reports) sweepLocked(now time.Time) {
	speaks := map[string]bool{}
	for key, c := range r.copies {
		if now.Sub(c.heard) < silentAfter {
			speaks[key.user] = true
		}
	}
	for key, c := range r.copies {
		if now.Sub(c.heard) < silentAfter {
			continue
		}
		if speaks[key.user] {
			r.forgetLocked(key)
			continue
		}
		r.size += partCost - c.size
		c.Gaps, c.size = nil, partCost
	}
}

// all merges the gaps of this process with those that were reported.
func (r *reports) all() []Gap {
	own := r.own.all()
	r.mu.Lock()
	now := time.Now()
	r.sweepLocked(now)
	var told, silent []Gap
	var silentKeys []copyKey
	known := map[string]bool{}
	for key, c := range r.copies {
		known[key.user] = true
		if now.Sub(c.heard) < silentAfter {
			told = append(told, c.Gaps...)
			continue
		}
		silentKeys = append(silentKeys, key)
		silent = append(silent, Gap{Loop: c.Part, Key: key.copy, State: Silent, Since: c.heard,
			Reason: "no word since " + c.heard.UTC().Format(time.RFC3339) + ": does it run, and reach the API server?"})
	}
	for user, e := range r.expected {
		if !known[user] && now.Sub(e.since) >= silentAfter {
			silent = append(silent, Gap{Loop: e.part, State: Silent, Since: e.since,
				Reason: fmt.Sprintf("none runs, or none reaches the API server: `setpoint %s` starts one", e.part)})
		}
	}
	r.mu.Unlock()
	// Outside the lock: it reads the API server.
	for i, key := range silentKeys {
		if r.gone != nil && r.gone(key.user) {
			r.goodbye(key)
			silent[i].Loop = ""
		}
	}
	alive := silent[:0]
	for _, g := range silent {
		if g.Loop != "" {
			alive = append(alive, g)
		}
	}
	return merge(own, told, alive)
}
