package fairness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// scraped are the series of a limiter that are not zero, but for the nominal
// seats.
func scraped(t *testing.T, l *Limiter) []string {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(l)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "apiserver_flowcontrol_")
		for _, m := range f.GetMetric() {
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if v == 0 || name == "nominal_limit_seats" {
				continue
			}
			line := name
			for _, label := range m.GetLabel() {
				line += " " + label.GetValue()
			}
			out = append(out, fmt.Sprint(line, " ", v))
		}
	}
	slices.Sort(out)
	return out
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Seats: 1, Queue: 1})
		want := func(lines ...string) {
			t.Helper()
			if diff := cmp.Diff(lines, scraped(t, l)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		first, _, err := l.Enter(t.Context(), jane("a"), 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go l.Enter(ctx, jane("a"), 1)
		synctest.Wait()
		if _, _, err := l.Enter(t.Context(), jane("a"), 1); err != ErrTooMany {
			t.Fatal(err)
		}
		want("current_executing_requests global-default global-default 1", "current_executing_seats global-default 1",
			"current_inqueue_requests global-default global-default 1", "dispatched_requests_total global-default global-default 1",
			"rejected_requests_total global-default global-default queue-full 1")
		cancel()
		synctest.Wait()
		l.Set(nil, nil) // a new plan forgets nothing
		first.Done()
		if _, _, err := l.Enter(t.Context(), &Request{User: who("admin", "system:masters"), Verb: "list", Resource: "secrets"}, 1); err != nil {
			t.Fatal(err)
		}
		want("dispatched_requests_total exempt exempt 1", "dispatched_requests_total global-default global-default 1",
			"rejected_requests_total global-default global-default cancelled 1", "rejected_requests_total global-default global-default queue-full 1")
	})
}
