package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPython runs the tests of examples/python-operator, which is written with
// Debian's python3-kubernetes.
func TestPython(t *testing.T) {
	const python = "/usr/bin/python3"
	if err := exec.Command(python, "-c", "import kubernetes").Run(); err != nil {
		t.Skip("no python3-kubernetes (apt-get install python3-kubernetes)")
	}
	t.Setenv("WITH_CONTROLLERS", "1")
	out := run(t, "../../examples/python-operator", python, "-B", "-W", "ignore", "-m", "unittest")
	has(t, "unittest", out, "OK")
}

// TestJavaScript runs node/operator.test.mjs with npm's
// @kubernetes/client-node. Version 1 still runs on Node 20.
func TestJavaScript(t *testing.T) {
	modules := os.Getenv("NODE_MODULES")
	if modules == "" {
		modules = t.TempDir()
		if _, err := exec.LookPath("npm"); err != nil {
			t.Skip("no npm")
		}
		if out, err := command(t, modules, "npm", "install", "--silent", "--no-fund", "--no-audit", "@kubernetes/client-node@1.3.0").CombinedOutput(); err != nil {
			t.Skipf("npm does not give @kubernetes/client-node: %v\n%s", err, out)
		}
		modules = filepath.Join(modules, "node_modules")
	}
	// Modules are looked for beside the file that imports them.
	dir := t.TempDir()
	content, err := os.ReadFile("node/operator.test.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "operator.test.mjs"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	has(t, "node", run(t, dir, "node", "--test"), "# fail 0", "# pass 2")
}
