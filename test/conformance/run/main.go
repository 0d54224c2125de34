// Command run runs Kubernetes' own end-to-end suite against Setpoint and
// writes down what passes:
//
//	run -setpoint bin/setpoint -cache .cache/conformance -pause .cache/bundle/pause -out docs/conformance [-focus REGEXP]
//
// With -small it is the part of the suite that CI runs, which is cheap to build
// (see small.go): no page is written, and it fails unless every test passes.
//
// It builds the suite and the programs of its images from their published
// modules, the rest of the images from Debian's packages, starts a cluster with
// its real containers inside a network namespace that holds nothing but
// loopback, loads the images and runs every conformance test that the regular
// expression matches. The latest result of each test is kept in a file, and the
// page is written from that: a run of some tests says nothing of the others.
// What was built is kept in the cache folder until the modules change. It needs
// root, and apt for the packages.
//
// It uses nothing but the standard library: whatever it required would change
// the versions that the suite is built with.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// options are the command's flags.
type options struct {
	setpoint, cache, pause, out string
	focus, skip                 string
	small, unpassed, build      bool
	procs                       int
	limit                       time.Duration
}

// inside marks the process that runs in the namespace.
const inside = "SETPOINT_CONFORMANCE_INSIDE"

func main() {
	var o options
	flag.StringVar(&o.setpoint, "setpoint", "bin/setpoint", "the `program` to test")
	flag.StringVar(&o.cache, "cache", ".cache/conformance", "`folder` for what is built")
	flag.StringVar(&o.pause, "pause", ".cache/bundle/pause", "the pause `program` of the suite's image")
	flag.StringVar(&o.out, "out", "docs/conformance", "`file`, without its ending, to write the results to: .md for people, .json for the next run")
	flag.StringVar(&o.focus, "focus", "", "run only conformance tests that this regular expression matches")
	flag.StringVar(&o.skip, "skip", "", "leave out tests that this regular expression matches")
	flag.BoolVar(&o.small, "small", false, "only the part of the suite that is cheap to build, all of which must pass; -focus and -skip are not for it")
	flag.BoolVar(&o.unpassed, "unpassed", false, "leave out tests that passed the last time")
	flag.BoolVar(&o.build, "build", false, "only build the suite and its images")
	flag.IntVar(&o.procs, "procs", 6, "how many tests run beside each other")
	flag.DurationVar(&o.limit, "limit", 10*time.Minute, "how long one test may take")
	flag.Parse()
	if o.small {
		o.focus, o.skip = "", smallSkip
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	if os.Getenv(inside) == "" {
		err = outer(ctx, &o)
	} else {
		err = inner(ctx, &o)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && os.Getenv(inside) == "":
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// outer builds what is needed, with the network that this takes, and runs this
// program again without any.
func outer(ctx context.Context, o *options) error {
	for _, path := range []*string{&o.setpoint, &o.cache, &o.pause, &o.out} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if err := os.MkdirAll(filepath.Join(o.cache, "bin"), 0o755); err != nil {
		return err
	}
	module, err := output("go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	module = strings.TrimSpace(module)
	s, k := o.newSuite(module), o.newKitchen(module)
	if err := s.build(); err != nil {
		return err
	}
	if err := s.buildImages(k); err != nil || o.build {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-setpoint", o.setpoint, "-cache", o.cache, "-out", o.out, "-focus", o.focus, "-skip", o.skip,
		"-small="+fmt.Sprint(o.small), "-unpassed="+fmt.Sprint(o.unpassed), "-procs", fmt.Sprint(o.procs), "-limit", o.limit.String())
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	return cmd.Run()
}

// inner runs the suite, in the namespace. What was found so far is written
// down after each test, the page in the end, even if the run is cut off.
func inner(ctx context.Context, o *options) error {
	if err := run("ip", "link", "set", "lo", "up"); err != nil {
		return err
	}
	var build struct{ Commit string }
	version, err := output(o.setpoint, "version", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(version), &build)
	}
	if err != nil {
		return err
	}
	s := &suite{cache: o.cache}
	tests, err := s.list()
	if err != nil {
		return err
	}
	known := &results{Kubernetes: kubernetes}
	if !o.small {
		if known, err = readResults(o.out + ".json"); err != nil {
			return err
		}
	}
	known.hold(tests)
	if tests, err = o.choose(tests, known); err != nil {
		return err
	}
	c, err := startCluster(o)
	if err != nil {
		return err
	}
	defer c.stop()
	var mu sync.Mutex
	var found results
	r := &runner{suite: s, cluster: c, limit: o.limit, procs: o.procs, again: o.small, logs: filepath.Join(o.cache, "logs"), done: func(r result) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%-7s %4.0fs %s\n", r.state, r.seconds, r.name)
		if r.why != "" {
			fmt.Printf("              %s\n", r.why)
		}
		latest := outcome{r.name, r.state, r.why, math.Round(r.seconds*10) / 10, build.Commit, time.Now().UTC().Format(time.DateOnly)}
		*known.of(r.name) = latest
		found.Tests = append(found.Tests, latest)
		if o.small {
			return
		}
		if err := known.write(o.out + ".json"); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}}
	runErr := r.run(ctx, tests)
	fmt.Printf("\n%s\n", found.table())
	if o.small {
		return errors.Join(runErr, found.allPassed(tests))
	}
	return errors.Join(runErr, os.WriteFile(o.out+".md", []byte(known.page()), 0o644))
}

// choose picks the tests to run.
func (o *options) choose(tests []test, known *results) ([]test, error) {
	focus, err := regexp.Compile(o.focus)
	if err != nil {
		return nil, fmt.Errorf("-focus: %w", err)
	}
	skip, err := regexp.Compile(o.skip)
	if err != nil {
		return nil, fmt.Errorf("-skip: %w", err)
	}
	chosen := slices.DeleteFunc(slices.Clone(tests), func(t test) bool {
		return !focus.MatchString(t.name) || o.skip != "" && skip.MatchString(t.name) || o.unpassed && known.of(t.name).State == "passed"
	})
	if len(chosen) == 0 {
		return nil, fmt.Errorf("none of %d conformance tests is asked for", len(tests))
	}
	fmt.Fprintf(os.Stderr, "%d of %d conformance tests\n", len(chosen), len(tests))
	return chosen, nil
}
