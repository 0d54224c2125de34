// Package probe watches the health of one container: it asks by the means a
// probe names (exec, HTTP, TCP, gRPC) and counts to the thresholds.
//
// Check asks once. Counter counts: pure. Run is the two in a loop. See
// https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/.
//
// Concurrency: each Run is one goroutine's; report is called from it.
//
// Failure: a probe that cannot be asked at all (no such port) is Unknown and
// counts neither way.
package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Kind of a probe.
type Kind string

const (
	Startup   Kind = "Startup"
	Readiness Kind = "Readiness"
	Liveness  Kind = "Liveness"
)

// Result of asking, or of counting.
type Result int

const (
	Unknown Result = iota
	Success
	Failure
)

// Outcome is what one look at a container came to.
type Outcome struct {
	Result  Result // of this look
	Message string
	// Verdict is what the thresholds make of it; Changed tells that it was
	// another before.
	Verdict Result
	Changed bool
}

// Counter counts results to the thresholds. The zero value of verdict is what
// Run was given.
type Counter struct {
	Success, Failure int32 // thresholds
	Verdict          Result

	last Result
	run  int32
}

// Add counts one result.
func (c *Counter) Add(r Result) (verdict Result, changed bool) {
	if r == Unknown {
		return c.Verdict, false
	}
	if r == c.last {
		c.run++
	} else {
		c.last, c.run = r, 1
	}
	if r == Failure && c.run < max(c.Failure, 1) || r == Success && c.run < max(c.Success, 1) {
		return c.Verdict, false
	}
	changed = c.Verdict != r
	c.Verdict = r
	return r, changed
}

// Run probes a container that started at a time, until ctx ends or the verdict
// is the last there can be: a startup probe ends when it knows, a liveness
// probe when it fails.
func Run(ctx context.Context, kind Kind, p *v1.Probe, started time.Time, initial Result, check func(context.Context) (Result, string), report func(Outcome)) {
	count := Counter{Success: p.SuccessThreshold, Failure: p.FailureThreshold, Verdict: initial}
	period := time.Duration(max(p.PeriodSeconds, 1)) * time.Second
	if p.PeriodSeconds == 0 {
		period = 10 * time.Second
	}
	delay := time.Duration(p.InitialDelaySeconds) * time.Second
	// A clock that was set back makes it start in the future.
	wait := min(time.Until(started.Add(delay)), delay)
	for {
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		r, msg := once(ctx, p, check)
		if ctx.Err() != nil {
			return
		}
		verdict, changed := count.Add(r)
		report(Outcome{Result: r, Message: msg, Verdict: verdict, Changed: changed})
		if changed && (kind == Startup || kind == Liveness && verdict == Failure) {
			return
		}
		wait = period - time.Since(began)
	}
}

// once asks up to three times while the means itself fails.
func once(ctx context.Context, p *v1.Probe, check func(context.Context) (Result, string)) (r Result, msg string) {
	for range 3 {
		tctx, cancel := context.WithTimeout(ctx, Timeout(p))
		r, msg = check(tctx)
		cancel()
		if r != Unknown || ctx.Err() != nil {
			break
		}
	}
	return r, msg
}

// Timeout of one look.
func Timeout(p *v1.Probe) time.Duration {
	return time.Duration(max(p.TimeoutSeconds, 1)) * time.Second
}
