package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runner runs tests of the suite against a cluster: several processes beside
// each other, each with a handful of tests one after the other, then by
// themselves those that bear no others. It does what ginkgo's own command does
// with --procs, and limits the time of each test, which that cannot; and when a
// process dies only its own tests are affected.
type runner struct {
	suite   *suite
	cluster *cluster
	limit   time.Duration // for one test
	procs   int
	logs    string // a file for each test that does not pass
	done    func(result)
	// again tries once more what failed, by itself once all others are through:
	// upstream's limits suppose a machine that is not as busy as one on which
	// several tests run beside each other. See fewFailed.
	again bool

	mu     sync.Mutex
	next   int               // guarded by mu: number of the next process
	failed map[string]result // guarded by mu: of those that are to be tried again; nil: none is
}

// fewFailed is how many tests are tried again at most. More are no accident.
const fewFailed = 5

// handful is how many tests one process runs: reading the suite's thousands of
// tests takes it a second.
const handful = 6

// run runs the tests and calls done for each that came to an end.
func (r *runner) run(ctx context.Context, tests []test) error {
	if err := errors.Join(os.RemoveAll(r.logs), os.MkdirAll(r.logs, 0o755)); err != nil {
		return err
	}
	if r.again {
		r.failed = map[string]result{}
	}
	var beside, alone []test
	for _, t := range tests {
		if t.serial {
			alone = append(alone, t)
		} else {
			beside = append(beside, t)
		}
	}
	// Tests that bear no others take long, and would use up each other's time.
	for _, part := range []struct {
		tests       []test
		size, procs int
	}{{beside, handful, r.procs}, {alone, 1, 1}} {
		again, err := r.pass(ctx, part.tests, part.size, part.procs)
		if err == nil {
			again, err = r.pass(ctx, again, 1, part.procs)
		}
		if err != nil {
			return errors.Join(err, r.tryAgain(ctx))
		}
		for _, t := range again {
			if ctx.Err() == nil {
				r.ended(result{test: t, state: "failed", why: "the suite's process ends without a word of it"})
			}
		}
	}
	return errors.Join(r.tryAgain(ctx), context.Cause(ctx))
}

// ended takes down the end of a test.
func (r *runner) ended(res result) {
	r.mu.Lock()
	keep := r.failed != nil && res.state == "failed"
	if keep {
		r.failed[res.name] = res
	}
	r.mu.Unlock()
	if !keep {
		r.done(res)
	}
}

// tryAgain tries those that failed once more, one after the other, and says of
// those that pass then how they failed before.
func (r *runner) tryAgain(ctx context.Context) error {
	failed, done := r.failed, r.done
	defer func() { r.done = done }()
	var tests []test
	r.failed, r.done = nil, func(res result) {
		if was := failed[res.name]; res.state == "passed" {
			res.why = "failed at first: " + was.why
		}
		delete(failed, res.name)
		done(res)
	}
	for _, res := range failed {
		tests = append(tests, res.test)
	}
	var err error
	if len(tests) <= fewFailed {
		_, err = r.pass(ctx, tests, 1, 1)
	}
	for _, res := range failed { // there was no second time
		done(res)
	}
	return err
}

// pass runs tests in processes of size tests each, and returns those that did
// not come to an end.
func (r *runner) pass(ctx context.Context, tests []test, size, procs int) ([]test, error) {
	var (
		mu    sync.Mutex
		again []test
		errs  error
		wg    sync.WaitGroup
	)
	take := func() (some []test) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || errs != nil {
			return nil
		}
		n := min(size, len(tests))
		some, tests = tests[:n], tests[n:]
		return some
	}
	for range procs {
		wg.Go(func() {
			for some := take(); len(some) > 0; some = take() {
				rest, err := r.process(ctx, some)
				mu.Lock()
				again, errs = append(again, rest...), errors.Join(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return again, errs
}

// process runs tests in one process of the suite, and returns those that did
// not come to an end. The limit is that of the whole process: who is cut off
// after others had their turn is tried again by itself.
func (r *runner) process(ctx context.Context, tests []test) (again []test, err error) {
	r.mu.Lock()
	r.next++
	at := filepath.Join(r.logs, fmt.Sprintf("process-%d", r.next))
	r.mu.Unlock()
	log, err := os.Create(at + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var names []string
	for _, t := range tests {
		names = append(names, regexp.QuoteMeta(t.name)+"$")
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, r.suite.bin("e2e.test"), "--ginkgo.focus", strings.Join(names, "|"), "--ginkgo.timeout", r.limit.String(),
		"--ginkgo.grace-period", "20s", "--ginkgo.no-color", "--ginkgo.v", "--ginkgo.json-report", at+".json",
		"--kubeconfig", r.cluster.kubeconfig, "--kubectl-path", r.cluster.kubectl, "--provider", "local", "--num-nodes", "2",
		"--dump-logs-on-failure=false", "--disable-log-dump")
	cmd.Dir = r.logs
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	runErr := cmd.Run() // a failed test is a result like any other: the report tells
	specs, err := readReport(at + ".json")
	if err := os.Remove(at + ".json"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	found := map[string]*spec{}
	for i := range specs {
		found[specs[i].test().name] = &specs[i]
	}
	good := true
	for _, t := range tests {
		s := found[t.name]
		if s == nil || s.State == "timedout" && len(tests) > 1 && s.RunTime < r.limit*9/10 {
			again = append(again, t)
			continue
		}
		res := s.result()
		if res.state == "" {
			again = append(again, t)
			continue
		}
		good = good && res.state == "passed"
		r.ended(res)
	}
	if len(specs) == 0 && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "a process of the suite ended without a report after %s (%v); %s tells more\n", time.Since(began).Round(time.Second), runErr, log.Name())
	}
	if good && len(again) == 0 {
		return nil, os.Remove(log.Name())
	}
	return again, nil
}
