package main

import (
	"os"
	"regexp"
	"testing"
)

// requirements are the versions of the modules that a go.mod requires.
func requirements(t *testing.T, path string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+) (v\S+)(?: // indirect)?$`).FindAllStringSubmatch(string(content), -1) {
		all[m[1]] = m[2]
	}
	return all
}

// TestSmallVersions: the small part shares what is built for setpoint only as
// long as both are built from the same versions; with others it would build all
// of Kubernetes' libraries once more, unseen.
func TestSmallVersions(t *testing.T) {
	ours, small, shared := requirements(t, "../../../go.mod"), requirements(t, "../small/go.mod"), 0
	for module, version := range small {
		switch v, ok := ours[module]; {
		case ok && v != version:
			t.Errorf("%s is at %s in test/conformance/small/go.mod and at %s in go.mod: go -C test/conformance/small get %s@%s", module, version, v, module, v)
		case ok:
			shared++
		}
	}
	if shared < 50 {
		t.Errorf("only %d modules are required by both: is the pattern right?", shared)
	}
}

func TestAllPassed(t *testing.T) {
	tests := []test{{name: "a"}, {name: "b"}}
	for what, c := range map[string]struct {
		found []outcome
		good  bool
	}{
		"all passed":  {[]outcome{{Test: "a", State: "passed"}, {Test: "b", State: "passed"}}, true},
		"one failed":  {[]outcome{{Test: "a", State: "passed"}, {Test: "b", State: "failed"}}, false},
		"one skipped": {[]outcome{{Test: "a", State: "skipped"}, {Test: "b", State: "passed"}}, false},
		"one missing": {[]outcome{{Test: "a", State: "passed"}}, false},
	} {
		if err := (&results{Tests: c.found}).allPassed(tests); (err == nil) != c.good {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestBusyboxLayer: busybox and its shell are there once, and what tests look
// for of users.
func TestBusyboxLayer(t *testing.T) {
	if _, err := os.Stat("/bin/busybox"); err != nil {
		t.Skip(err)
	}
	layer, err := busyboxLayer("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	headers, contents := entries(t, layer)
	if h := headers["bin/busybox"]; h == nil || h.Mode != 0o755 || h.Size == 0 {
		t.Errorf("busybox: %+v", h)
	}
	if h := headers["bin/sh"]; h == nil || h.Linkname != "busybox" {
		t.Errorf("sh: %+v", h)
	}
	if h := headers["tmp/"]; h == nil || h.Mode != 0o1777 {
		t.Errorf("tmp: %+v", h)
	}
	if len(contents["etc/passwd"]) == 0 {
		t.Error("no etc/passwd")
	}
}

func TestSourcesToo(t *testing.T) {
	const lists = "# a mirror\ndeb http://example.com/debian stable main\nTypes: deb\nURIs: http://example.com/debian\n"
	const want = "# a mirror\ndeb-src http://example.com/debian stable main\nTypes: deb-src\nURIs: http://example.com/debian\n"
	if got := string(sourcesToo([]byte(lists))); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
