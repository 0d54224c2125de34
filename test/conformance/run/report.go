package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// test is one conformance test of the suite.
type test struct {
	name   string // whole, as the suite finds it by
	serial bool   // no other may run beside it
}

// result is what became of one test in one run.
type result struct {
	test
	state   string // passed, failed, skipped, or empty: it did not come to an end
	why     string // of all but a pass: one line
	seconds float64
}

// spec is an entry of ginkgo's report.
// https://onsi.github.io/ginkgo/#generating-machine-readable-reports
type spec struct {
	ContainerHierarchyTexts  []string
	ContainerHierarchyLabels [][]string
	LeafNodeType             string
	LeafNodeText             string
	LeafNodeLabels           []string
	State                    string
	RunTime                  time.Duration
	Failure                  failure
	AdditionalFailures       []struct {
		State   string
		Failure failure
	}
}

type failure struct {
	Message        string
	ForwardedPanic string
	Location       struct {
		FileName   string
		LineNumber int
	}
	ProgressReport struct{ CurrentStepText string }
}

// readReport reads the conformance tests that a report of ginkgo's lists.
func readReport(path string) ([]spec, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(content, &suites); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []spec
	for _, s := range suites {
		for _, one := range s.SpecReports {
			if one.LeafNodeType == "It" && one.labelled("Conformance") {
				all = append(all, one)
			}
		}
	}
	return all, nil
}

func (s *spec) labelled(label string) bool {
	return slices.Contains(s.LeafNodeLabels, label) ||
		slices.ContainsFunc(s.ContainerHierarchyLabels, func(l []string) bool { return slices.Contains(l, label) })
}

func (s *spec) test() test {
	texts := slices.DeleteFunc(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), func(t string) bool { return t == "" })
	return test{strings.Join(texts, " "), s.labelled("Serial")}
}

// result is what a report says of a test that was asked for.
func (s *spec) result() result {
	r := result{test: s.test(), seconds: s.RunTime.Seconds()}
	switch s.State {
	case "passed":
		r.state = "passed"
	case "skipped":
		// Without a message it was left out, the run being over.
		if s.Failure.Message != "" {
			r.state, r.why = "skipped", firstLine(s.Failure.Message)
		}
	case "timedout":
		r.state, r.why = "failed", "takes too long"
		if step := s.Failure.ProgressReport.CurrentStepText; step != "" {
			r.why += " at: " + firstLine(step)
		}
		for _, more := range s.AdditionalFailures {
			if more.Failure.Message != "" {
				r.why += "; " + more.Failure.line()
				break
			}
		}
	case "failed", "panicked":
		r.state, r.why = "failed", s.Failure.line()
	default: // pending, interrupted, aborted
	}
	return r
}

// line is a failure and its place in the suite's source.
func (f *failure) line() string {
	message := f.Message
	if f.ForwardedPanic != "" {
		message = "panic: " + f.ForwardedPanic
	}
	return fmt.Sprintf("%s (%s:%d)", firstLine(message), f.Location.FileName[strings.LastIndex(f.Location.FileName, "/")+1:], f.Location.LineNumber)
}

var (
	address = regexp.MustCompile(`0x[0-9a-f]+`)
	moment  = regexp.MustCompile(`\b[A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d:\d\d\.\d+: (INFO: )?`)
)

// firstLine is what a failure says first, as far as it fits a line: gomega
// puts what it saw on the lines after a heading that ends in a colon.
func firstLine(message string) string {
	var line string
	for l := range strings.Lines(message) {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		line = strings.TrimSpace(line + " " + l)
		if !strings.HasSuffix(l, ":") && len(line) > 40 {
			break
		}
	}
	line = address.ReplaceAllString(moment.ReplaceAllString(line, ""), "0x…")
	if runes := []rune(line); len(runes) > 240 {
		line = string(runes[:240]) + "…"
	}
	return line
}
