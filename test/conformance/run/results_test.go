package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestResults: a run of some tests replaces what is known of those alone, tests
// that are no more are forgotten, and another version's results count for
// nothing.
func TestResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	r, err := readResults(path)
	if err != nil || len(r.Tests) != 0 {
		t.Fatalf("without a file: %+v, %v", r, err)
	}
	r.hold([]test{{name: "[sig-cli] b"}, {name: "[sig-apps] a"}, {name: "[sig-apps] gone"}})
	*r.of("[sig-apps] a") = outcome{"[sig-apps] a", "failed", "it <says> no", 2, "abc", "2026-11-28"}
	*r.of("[sig-apps] gone") = outcome{Test: "[sig-apps] gone", State: "passed"}
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}

	if r, err = readResults(path); err != nil {
		t.Fatal(err)
	}
	r.hold([]test{{name: "[sig-apps] a"}, {name: "[sig-cli] b"}, {name: "[sig-node] c"}})
	*r.of("[sig-cli] b") = outcome{"[sig-cli] b", "passed", "", 1, "def", "2026-11-29"}
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	if r, err = readResults(path); err != nil {
		t.Fatal(err)
	}
	want := []outcome{
		{"[sig-apps] a", "failed", "it <says> no", 2, "abc", "2026-11-28"},
		{"[sig-cli] b", "passed", "", 1, "def", "2026-11-29"},
		{Test: "[sig-node] c"},
	}
	if !slices.Equal(r.Tests, want) {
		t.Errorf("got:\n%+v\nwant:\n%+v", r.Tests, want)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(content), "\n"); lines != len(want)+2 {
		t.Errorf("%d lines for %d tests:\n%s", lines, len(want), content)
	}
	other := strings.Replace(string(content), kubernetes, "1.1.1", 1)
	if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := readResults(path); err != nil || len(r.Tests) != 0 {
		t.Errorf("another version's: %+v, %v", r, err)
	}
}

// TestChoose: what is asked for, less what is not wanted.
func TestChoose(t *testing.T) {
	tests := []test{{name: "[sig-apps] a"}, {name: "[sig-apps] b"}, {name: "[sig-cli] c"}}
	known := &results{}
	known.hold(tests)
	known.of("[sig-apps] b").State = "passed"
	for _, c := range []struct {
		options options
		want    string
	}{
		{options{}, "a b c"},
		{options{focus: "sig-apps"}, "a b"},
		{options{focus: `\[sig-apps\]`, skip: " a$"}, "b"},
		{options{unpassed: true}, "a c"},
		{options{focus: "sig-node"}, "none of 3 conformance tests is asked for"},
		{options{focus: "("}, "-focus: error parsing regexp: missing closing ): `(`"},
	} {
		chosen, err := c.options.choose(tests, known)
		var names []string
		for _, one := range chosen {
			names = append(names, one.name[strings.LastIndex(one.name, " ")+1:])
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: got %q, want %q", c.options, got, c.want)
		}
	}
}

// TestPage: the page counts by SIG, tells where results come from, and why
// tests fail or skip themselves.
func TestPage(t *testing.T) {
	r := &results{Kubernetes: kubernetes, Tests: []outcome{
		{"[sig-apps] Job should fail [Serial] [Conformance]", "failed", "Expected: <*v1.Job | 0x…> (job.go:42)", 60, "abc", "2026-11-28"},
		{"[sig-cli] Kubectl should scale [Conformance]", "passed", "", 1, "def", "2026-11-29"},
		{"[sig-node] Pods needs two nodes [Conformance]", "skipped", "only one node", 1, "def", "2026-11-29"},
		{"[sig-node] ImageVolume should succeed with pod and pull policy of Always [Conformance]", "failed", "no", 1, "def", "2026-11-29"},
		{Test: "[sig-node] Pods wait [Conformance]"},
	}}
	const table = `| SIG | passed | failed | skipped | not run |
|---|---:|---:|---:|---:|
| sig-apps | 0 | 1 | 0 | 0 |
| sig-cli | 1 | 0 | 0 | 0 |
| sig-node | 0 | 1 | 1 | 1 |
| all | 1 | 2 | 1 | 1 |
`
	if got := r.table(); got != table {
		t.Errorf("got:\n%s\nwant:\n%s", got, table)
	}
	page := r.page()
	for _, want := range []string{
		"tests of Kubernetes " + kubernetes + " against", table, "| 2026-11-28 | abc | 1 |\n| 2026-11-29 | def | 3 |\n",
		"## What fails\n\n### sig-apps\n\n- Job should fail: Expected: &lt;\\*v1.Job \\| 0x…> (job.go:42)\n\n### sig-node\n\n- ImageVolume should succeed with pod and pull policy of Always: no\n",
		"## What skips itself\n\n### sig-node\n\n- Pods needs two nodes: only one node\n",
		"## What has not been run\n\n### sig-node\n\n- Pods wait\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
