package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kubernetes is the version of the suite.
const kubernetes = "1.37.2"

// suite is Kubernetes' end-to-end suite, or the small part of it, built into
// the cache folder.
type suite struct {
	module string   // the folder of the module that it is built in
	pkg    string   // the package of its tests
	from   []string // the module's files that it is made from
	cache  string
}

// newSuite is the suite that the options ask for; module is this module's
// folder.
func (o *options) newSuite(module string) *suite {
	if o.small {
		return &suite{filepath.Join(module, "small"), "./suite", []string{"go.mod", "go.sum", "suite/suite_test.go", "suite/gates/gates.go"}, o.cache}
	}
	return &suite{module, "k8s.io/kubernetes/test/e2e", []string{"go.mod", "go.sum"}, o.cache}
}

func (s *suite) bin(name string) string { return filepath.Join(s.cache, "bin", name) }

// build builds the suite unless it was built from the same files before. The
// whole takes the better part of an hour of a processor, so it stands back for
// everything else.
func (s *suite) build() error {
	key, err := key(s.module, s.from...)
	if err != nil {
		return err
	}
	done := filepath.Join(s.cache, "suite.key")
	if was, err := os.ReadFile(done); err == nil && string(was) == key {
		return nil
	}
	const version = "k8s.io/component-base/version"
	parts := strings.Split(kubernetes, ".")
	ldflags := fmt.Sprintf("-s -w -X %s.gitVersion=v%s -X %s.gitMajor=%s -X %s.gitMinor=%s", version, kubernetes, version, parts[0], version, parts[1])
	fmt.Fprintln(os.Stderr, "building the suite; the first time this takes long")
	err = goCommand(s.module, "test", "-c", "-p", "2", "-vet=off", "-ldflags", ldflags, "-o", s.bin("e2e.test"), s.pkg)
	if err != nil {
		return err
	}
	return os.WriteFile(done, []byte(key), 0o644)
}

// key changes with the compiler and with these files of a module.
func key(module string, files ...string) (string, error) {
	h := sha256.New()
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		h.Write(content)
	}
	version, err := output("go", "env", "GOVERSION", "GOARCH")
	if err != nil {
		return "", err
	}
	h.Write([]byte(version))
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (s *suite) archive() string { return filepath.Join(s.cache, "images.tar") }

// buildImages makes the images that the suite's own list names, unless they
// were made by the same recipes before.
func (s *suite) buildImages(k *kitchen) error {
	key, err := key(k.module, k.from...)
	if err != nil {
		return err
	}
	done := filepath.Join(s.cache, "images.key")
	if was, err := os.ReadFile(done); err == nil && string(was) == key {
		return nil
	}
	if err := os.Remove(done); err != nil && !os.IsNotExist(err) {
		return err
	}
	list, err := output(s.bin("e2e.test"), "--list-images")
	if err != nil {
		return err
	}
	missing, err := k.makeImages(strings.Fields(list), s.archive())
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "not made, no conformance test runs them: %s\n", strings.Join(missing, " "))
	return os.WriteFile(done, []byte(key), 0o644)
}

// list lists the suite's conformance tests.
func (s *suite) list() ([]test, error) {
	report := filepath.Join(s.cache, "list.json")
	cmd := exec.Command(s.bin("e2e.test"), "--ginkgo.dry-run", "--ginkgo.label-filter", "Conformance", "--ginkgo.json-report", report)
	cmd.Dir = s.cache
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("list the suite's tests: %w\n%s", err, out)
	}
	specs, err := readReport(report)
	if err != nil {
		return nil, err
	}
	tests := make([]test, len(specs))
	for i := range specs {
		tests[i] = specs[i].test()
	}
	return tests, os.Remove(report)
}

// buildProgram builds a program of the modules that this one pins.
func buildProgram(module, out, pkg string) error {
	return goCommand(module, "build", "-p", "2", "-ldflags", "-s -w", "-o", out, pkg)
}

// goCommand runs the go command at the lowest priority.
func goCommand(dir string, args ...string) error {
	cmd := exec.Command("nice", append([]string{"-n", "19", "go"}, args...)...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	return nil
}
