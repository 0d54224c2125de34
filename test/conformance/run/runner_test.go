package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The test program stands for the suite's when it is started by that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "e2e.test" {
		os.Exit(stand(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// stand does what the suite would with tests whose names say what becomes of
// them: "slow" ones use up the time, and whatever follows is not reached;
// "alone" ones do so unless they come first; "deadly" ones end the process;
// "busy" ones fail where others are asked for as well.
func stand(args []string) int {
	value := func(flag string) string { return args[slices.Index(args, flag)+1] }
	focus := regexp.MustCompile(value("--ginkgo.focus"))
	limit, err := time.ParseDuration(value("--ginkgo.timeout"))
	if err != nil {
		fmt.Println(err)
		return 2
	}
	var specs []map[string]any
	over := false
	for i, name := range strings.Split(os.Getenv("SUITE"), ",") {
		s := map[string]any{"LeafNodeType": "It", "LeafNodeText": name, "LeafNodeLabels": []string{"Conformance"}, "State": "skipped"}
		specs = append(specs, s)
		first := !slices.ContainsFunc(specs[:i], func(s map[string]any) bool { return s["State"] != "skipped" })
		switch {
		case over || !focus.MatchString("Kubernetes e2e suite "+name):
		case strings.HasPrefix(name, "deadly"):
			fmt.Println("exit")
			return 1
		case strings.HasPrefix(name, "slow"):
			over = true
			s["State"], s["RunTime"] = "timedout", limit
		case strings.HasPrefix(name, "alone") && !first:
			over = true
			s["State"], s["RunTime"] = "timedout", limit/2
		case strings.HasPrefix(name, "bad"), strings.HasPrefix(name, "busy") && strings.Contains(focus.String(), "|"):
			s["State"], s["Failure"] = "failed", map[string]any{"Message": "bad"}
		default:
			s["State"] = "passed"
		}
	}
	content, err := json.Marshal([]map[string]any{{"SpecReports": specs}})
	if err == nil {
		err = os.WriteFile(value("--ginkgo.json-report"), content, 0o600)
	}
	if err != nil {
		fmt.Println(err)
		return 2
	}
	return 0
}

// stage is a cache folder with the stand-in for the suite.
func stage(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.Symlink(self, filepath.Join(dir, "bin", "e2e.test")))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTriedAgain: what fails beside others is tried once more by itself, which
// is told when it passes then; where much fails it stays at that.
func TestTriedAgain(t *testing.T) {
	dir := stage(t)
	for _, c := range []struct {
		again bool
		names []string
		want  string // of the busy ones
	}{
		{true, []string{"good 1", "busy 1", "bad 1", "good 2", "busy 2"}, "passed, failed at first: bad (:0)"},
		{false, []string{"good 1", "busy 1", "bad 1", "good 2", "busy 2"}, "failed, bad (:0)"},
		{true, []string{"busy 1", "busy 2", "bad 1", "bad 2", "bad 3", "bad 4", "good 1"}, "failed, bad (:0)"},
	} {
		t.Setenv("SUITE", strings.Join(c.names, ","))
		var tests []test
		for _, name := range c.names {
			tests = append(tests, test{name, false})
		}
		var got []string
		r := &runner{suite: &suite{cache: dir}, cluster: &cluster{}, limit: time.Minute, procs: 1, logs: filepath.Join(dir, "logs"), again: c.again, done: func(r result) {
			got = append(got, strings.Trim(r.name+": "+r.state+", "+r.why, ", "))
		}}
		if err := r.run(t.Context(), tests); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, name := range c.names {
			switch kind, _, _ := strings.Cut(name, " "); kind {
			case "good":
				want = append(want, name+": passed")
			case "bad":
				want = append(want, name+": failed, bad (:0)")
			default:
				want = append(want, name+": "+c.want)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("again %t, of %q: got %q, want %q", c.again, c.names, got, want)
		}
	}
}

// TestRunner: every test comes to one end, whatever those before it in the
// same process do.
func TestRunner(t *testing.T) {
	dir := stage(t)
	names := []string{"good 1", "bad 1", "alone 1", "good 2", "slow 1", "good 3", "deadly 1", "good 4", "alone 2", "good 10", "good (5)"}
	t.Setenv("SUITE", strings.Join(names, ","))
	var tests []test
	for i, name := range names {
		tests = append(tests, test{name, i%4 == 3})
	}
	var mu sync.Mutex
	got := map[string]string{}
	r := &runner{suite: &suite{cache: dir}, cluster: &cluster{}, limit: time.Minute, procs: 2, logs: filepath.Join(dir, "logs"), done: func(r result) {
		mu.Lock()
		defer mu.Unlock()
		if was, ok := got[r.name]; ok {
			t.Errorf("%s is %s and %s", r.name, was, r.state)
		}
		got[r.name] = r.state
	}}
	if err := r.run(t.Context(), tests); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		want := "passed"
		if strings.HasPrefix(name, "bad") || strings.HasPrefix(name, "slow") || strings.HasPrefix(name, "deadly") {
			want = "failed"
		}
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	logs, err := os.ReadDir(r.logs)
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		if !strings.HasSuffix(log.Name(), ".log") {
			t.Errorf("%s is left over", log.Name())
		}
	}
	if len(logs) == 0 {
		t.Error("no log is kept of tests that fail")
	}

	cut, cancel := context.WithCancelCause(t.Context())
	over := errors.New("that is enough")
	cancel(over)
	clear(got)
	if err := r.run(cut, tests); !errors.Is(err, over) || len(got) != 0 {
		t.Errorf("a run that is cut off: %v, results %v", err, got)
	}
}
