package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestQuiet: a quiet cluster of 500 pods writes nothing but leases and the
// status of nodes. What was set in motion must settle; then the log of requests
// must cover a whole minute without any other write.
func TestQuiet(t *testing.T) {
	t.Parallel() // nearly all of it is waiting
	c := harness.Start(t, "--nodes", "sim=10")
	c.Apply(webManifest("web", "sim:1", 500))
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
	log := openRequests(t, c)
	var quiet time.Time // since then nothing was written
	var last string     // write
	requests, allowed := 0, 0
	c.Eventually(3*time.Minute, "a minute without a write", func() error {
		for _, r := range log.more() {
			switch {
			case quiet.IsZero():
				quiet = r.Time
			case r.Verb == "get" || r.Verb == "list" || r.Verb == "watch":
				requests++
			case r.Resource == "leases.coordination.k8s.io" || r.Resource == "nodes/status":
				allowed++
			default:
				quiet, last, requests, allowed = r.Time, r.line, 0, 0
			}
			if r.Time.Sub(quiet) >= time.Minute {
				return nil
			}
		}
		return fmt.Errorf("the last write is %s", last)
	})
	t.Logf("in a minute %d writes of leases and node status, and %d other requests", allowed, requests)
	if allowed == 0 {
		t.Error("no lease was renewed in a minute: the request log does not tell")
	}
}

// request is a line of the request log.
type request struct {
	Time           time.Time
	Verb, Resource string
	line           string
}

// requestLog reads the log while it grows.
type requestLog struct {
	t    *testing.T
	r    *bufio.Reader
	part []byte // of a line that is not whole yet
}

func openRequests(t *testing.T, c *harness.Cluster) *requestLog {
	t.Helper()
	f, err := os.Open(c.RequestLog)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &requestLog{t: t, r: bufio.NewReader(f)}
}

// more reads what was added since it was called last.
func (l *requestLog) more() (requests []request) {
	l.t.Helper()
	for {
		data, err := l.r.ReadBytes('\n')
		l.part = append(l.part, data...)
		if err == io.EOF {
			return requests
		}
		if err != nil {
			l.t.Fatal(err)
		}
		r := request{line: string(bytes.TrimSpace(l.part))}
		if err := json.Unmarshal(l.part, &r); err != nil {
			l.t.Fatalf("request log: %v: %s", err, l.part)
		}
		l.part = nil
		requests = append(requests, r)
	}
}
