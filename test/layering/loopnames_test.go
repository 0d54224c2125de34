package layering

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	loopName  = regexp.MustCompile(`(?:^|\n)(?:const |\t)(?:Name|StaleName|CleanerName|PodName|orphansName) += "([^"]*)"\n|NewLoop\([^,]+, "([^"]*)"|loop\.Options\{Name: "([^"]*)"`)
	wellNamed = regexp.MustCompile(`^[a-z]+$`)
)

// People read the names of loops in `setpoint status` and filter logs and metrics
// by them: they are written one way, as packages are.
func TestLoopNames(t *testing.T) {
	seen := 0
	for _, root := range []string{"controllers", "network", "simnode", "localpath", "dns", "kubelet", "scheduler"} {
		err := filepath.WalkDir("../../internal/"+root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(source), "loop.") && !strings.Contains(string(source), ".NewLoop(") {
				return err
			}
			for _, match := range loopName.FindAllStringSubmatch(string(source), -1) {
				if name := match[1] + match[2] + match[3]; !wellNamed.MatchString(name) {
					t.Errorf("%s: %q is to be written in small letters, without hyphens", path, name)
				}
				seen++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 50 {
		t.Errorf("found %d loops: is the pattern right?", seen)
	}
}
