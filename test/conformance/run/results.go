package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// outcome is the latest result of one test, and where it comes from.
type outcome struct {
	Test    string  `json:"test"`
	State   string  `json:"state,omitempty"` // passed, failed, skipped; empty: never run to its end
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Commit  string  `json:"commit,omitempty"`
	Date    string  `json:"date,omitempty"` // 2006-01-02, UTC
}

// results are the latest results of all tests, by their names. They lie beside
// the page that is made of them, a line for each test, so that a run of some
// tests replaces what is known of those and keeps the rest.
type results struct {
	Kubernetes string
	Tests      []outcome
}

// readResults reads what earlier runs found; nothing, if there were none or
// they ran another version's tests.
func readResults(path string) (*results, error) {
	r := &results{Kubernetes: kubernetes}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	var was results
	if err := json.Unmarshal(content, &was); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if was.Kubernetes == kubernetes {
		r = &was
	}
	return r, nil
}

// hold makes the results those of exactly these tests.
func (r *results) hold(tests []test) {
	known := map[string]outcome{}
	for _, o := range r.Tests {
		known[o.Test] = o
	}
	r.Tests = make([]outcome, len(tests))
	for i, t := range tests {
		r.Tests[i] = known[t.name]
		r.Tests[i].Test = t.name
	}
	slices.SortFunc(r.Tests, func(a, b outcome) int { return strings.Compare(a.Test, b.Test) })
}

// of is what is known of a test.
func (r *results) of(name string) *outcome {
	i, ok := slices.BinarySearchFunc(r.Tests, name, func(o outcome, name string) int { return strings.Compare(o.Test, name) })
	if !ok {
		return &outcome{Test: name}
	}
	return &r.Tests[i]
}

// write replaces the file.
func (r *results) write(path string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"kubernetes\": %q, \"tests\": [\n", r.Kubernetes)
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	for i := range r.Tests {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := encoder.Encode(&r.Tests[i]); err != nil {
			return err
		}
	}
	b.WriteString("]}\n")
	if err := os.WriteFile(path+".new", b.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
