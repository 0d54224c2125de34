// Command controller-runtime runs controller-runtime's own test packages,
// unchanged, against `setpoint envtest`, and tells what passes:
//
//	controller-runtime -setpoint bin/setpoint -cache .cache/conformance [PACKAGE...]
//
// The module is copied out of the module cache, because its tests write beside
// their sources. It exits with 1 when a package fails.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "sigs.k8s.io/controller-runtime@v0.25.2"

func main() {
	setpoint := flag.String("setpoint", "bin/setpoint", "the `program` to test")
	cache := flag.String("cache", ".cache/conformance", "`folder` to work in")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"./pkg/..."}
	}
	failed, err := test(*setpoint, *cache, packages)
	if err != nil {
		fmt.Fprintln(os.Stderr, "controller-runtime:", err)
	}
	if err != nil || failed {
		os.Exit(1)
	}
}

func test(setpoint, cache string, packages []string) (failed bool, err error) {
	if cache, err = filepath.Abs(cache); err != nil {
		return false, err
	}
	assets, sources := filepath.Join(cache, "assets"), filepath.Join(cache, "controller-runtime")
	fill := exec.Command(setpoint, "envtest", assets)
	fill.Stderr = os.Stderr
	if err := fill.Run(); err != nil {
		return false, fmt.Errorf("%s envtest: %w", setpoint, err)
	}
	if err := fetch(sources); err != nil {
		return false, err
	}
	log, err := os.Create(filepath.Join(cache, "controller-runtime.log"))
	if err != nil {
		return false, err
	}
	defer log.Close()
	cmd := exec.Command("go", append([]string{"test", "-json", "-p", "1", "-vet=off", "-count=1", "-timeout=20m"}, packages...)...)
	cmd.Dir, cmd.Stderr = sources, os.Stderr
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	total, err := tell(io.TeeReader(out, log), os.Stdout)
	if err != nil {
		return false, err
	}
	cmd.Wait() // that tests failed is told
	return total.failed > 0 || total.broken > 0, nil
}

// fetch puts a copy of the module, which may be written to, into dir.
func fetch(dir string) error {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return fmt.Errorf("go mod download %s: %w", module, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	// A module keeps no modes; some tests run scripts that lie beside them.
	script := fmt.Sprintf("cp -r %q %q && chmod -R u+w %q && find %q -name '*.sh' -exec chmod +x {} +", found.Dir, dir, dir, dir)
	cmd := exec.Command("sh", "-c", script)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// count is what became of the tests of a package, or of all.
type count struct {
	passed, failed, skipped int
	broken                  int      // packages that ended without saying how their tests did
	names                   []string // of what failed
}

// tell reads the events of `go test -json` and prints a line for each package
// and for each failed test.
func tell(events io.Reader, out io.Writer) (total count, err error) {
	packages := map[string]*tally{}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	fmt.Fprintf(out, "%-52s %7s %7s %7s\n", "package", "passed", "failed", "skipped")
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Package == "" {
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = &tally{suites: map[string]bool{}, seen: map[string]bool{}}
			packages[e.Package] = p
		}
		if !p.take(e) {
			continue
		}
		c := p.count
		total.passed, total.failed, total.skipped, total.broken = total.passed+c.passed, total.failed+c.failed, total.skipped+c.skipped, total.broken+c.broken
		if c.passed+c.failed+c.skipped+c.broken == 0 {
			continue // it has no tests
		}
		fmt.Fprintf(out, "%-52s %7d %7d %7d\n", strings.TrimPrefix(e.Package, "sigs.k8s.io/controller-runtime/"), c.passed, c.failed, c.skipped)
		for _, name := range c.names {
			fmt.Fprintln(out, "    FAIL", name)
		}
		if c.broken > 0 {
			fmt.Fprintln(out, "    the package ended without a result")
		}
	}
	fmt.Fprintf(out, "%-52s %7d %7d %7d\n", "all", total.passed, total.failed, total.skipped)
	return total, lines.Err()
}
