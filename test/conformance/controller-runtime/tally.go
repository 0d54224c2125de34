package main

import (
	"regexp"
	"strconv"
	"strings"
)

// event is one event of `go test -json`.
type event struct {
	Action, Package, Test, Output string
}

// tally gathers the results of one package: ginkgo's own count of ginkgo's
// tests, and Go's of all others.
type tally struct {
	count
	suites map[string]bool // Go tests that run a suite of ginkgo's: no tests of their own
	seen   map[string]bool // failures told
}

var (
	ended = regexp.MustCompile(`(\d+) Passed.*?(\d+) Failed.*?(\d+) Pending.*?(\d+) Skipped`)
	fails = regexp.MustCompile(`\[(?:FAIL|PANICKED!|TIMEDOUT|INTERRUPTED)\]\s*(.*)$`)
	style = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// take takes one event and tells whether the package has ended with it.
func (t *tally) take(e event) (done bool) {
	switch e.Action {
	case "output":
		t.read(e)
	case "pass", "fail", "skip":
		switch {
		case e.Test == "":
			// The program may end badly after its tests did well.
			if e.Action == "fail" && t.failed == 0 {
				t.broken = 1
			}
			return true
		case t.suites[e.Test]:
		case e.Action == "pass":
			t.passed++
		case e.Action == "skip":
			t.skipped++
		default:
			t.failed++
			t.names = append(t.names, e.Test)
		}
	}
	return false
}

// read looks for what ginkgo says.
func (t *tally) read(e event) {
	line := strings.TrimSpace(style.ReplaceAllString(e.Output, ""))
	if m := ended.FindStringSubmatch(line); m != nil {
		t.suites[e.Test] = true
		for i, n := range []*int{&t.passed, &t.failed, &t.skipped, &t.skipped} {
			v, _ := strconv.Atoi(m[i+1])
			*n += v
		}
	}
	// A failure is told where it happens and again in the summary.
	if m := fails.FindStringSubmatch(line); m != nil && !t.seen[m[1]] {
		t.seen[m[1]] = true
		t.names = append(t.names, m[1])
	}
}
