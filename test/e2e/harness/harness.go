// Package harness starts real clusters for the end-to-end tests: the setpoint
// binary with real containers, driven by the real kubectl.
//
// Main puts the whole test process into a network namespace of its own with
// nothing but a loopback device in it, so nothing that a test does can leave
// the machine. Tests need root and a built binary (SETPOINT, or bin/setpoint);
// without them they fail, for an end-to-end test that is skipped shows nothing.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/isolated"
)

// Main runs the tests inside a network namespace with no way out.
func Main(m *testing.M) { isolated.Main(m.Run) }

// Binary is the setpoint under test.
func Binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv("SETPOINT")
	if path == "" {
		path = filepath.Join(Root(t), "bin", "setpoint")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no setpoint to test: %v (make build)", err)
	}
	return path
}

// Root is the repository's.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("no go.mod above the test: %v", err)
	return ""
}

// Cluster is one cluster under test, in a data folder of its own.
type Cluster struct {
	T          testing.TB
	Dir        string // data folder
	Kubeconfig string
	RequestLog string

	args    []string
	process *Process
}

// Start starts `setpoint up` with further arguments and waits until it is
// ready. It is taken down when the test ends, and its log shown when it failed.
func Start(t testing.TB, args ...string) *Cluster {
	t.Helper()
	// Not t.TempDir: mounts in it would make its removal fail the test before
	// they are taken away, and the name is too long for sockets.
	dir, err := os.MkdirTemp("", "sp-")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{T: t, Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfigs", "admin.kubeconfig"), RequestLog: filepath.Join(dir, "requests.jsonl")}
	c.args = append([]string{"up", "--request-log", c.RequestLog}, args...)
	t.Cleanup(func() {
		if c.process != nil {
			c.process.Stop()
		}
		if out, err := c.run(patience, nil, Binary(t), "--data-dir", dir, "down", "--purge"); err != nil {
			t.Errorf("setpoint down: %v\n%s", err, out)
		}
		os.RemoveAll(dir)
	})
	c.Up()
	return c
}

// Up starts the cluster again, after Kill or Stop.
func (c *Cluster) Up() {
	c.T.Helper()
	c.process = StartProcess(c.T, append([]string{"--data-dir", c.Dir, "--log-level", "info"}, c.args...)...)
	c.process.WaitFor("ready in ")
}

// In is the same cluster in a test that is part of another: failures are that
// part's.
func (c *Cluster) In(t testing.TB) *Cluster {
	in := *c
	in.T = t
	return &in
}

// Part starts a part of the cluster alone ("controllers", "scheduler",
// "simnodes"), with the kubeconfig that the server wrote for it.
func (c *Cluster) Part(part string, args ...string) *Process {
	c.T.Helper()
	return StartProcess(c.T, append([]string{"--data-dir", c.Dir, part}, args...)...)
}

// Process that runs the cluster.
func (c *Cluster) Process() *Process { return c.process }

// Kill ends the cluster's process with SIGKILL.
func (c *Cluster) Kill() { c.process.Kill() }

// Stop ends the cluster's process with SIGTERM.
func (c *Cluster) Stop() { c.process.Stop() }

// Setpoint runs another command of the binary on the cluster.
func (c *Cluster) Setpoint(args ...string) string {
	c.T.Helper()
	out, err := c.TrySetpoint(args...)
	if err != nil {
		c.T.Fatalf("setpoint %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TrySetpoint is Setpoint for what may fail.
func (c *Cluster) TrySetpoint(args ...string) (string, error) {
	return c.run(patience, nil, Binary(c.T), append([]string{"--data-dir", c.Dir}, args...)...)
}

// Kubectl runs the kubectl that setpoint carries, and fails the test when it
// fails. It returns standard output and error together.
func (c *Cluster) Kubectl(args ...string) string {
	c.T.Helper()
	out, err := c.Try(args...)
	if err != nil {
		c.T.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Try is Kubectl for what may fail.
func (c *Cluster) Try(args ...string) (string, error) { return c.Input("", args...) }

// Input is Try with standard input.
func (c *Cluster) Input(stdin string, args ...string) (string, error) {
	return c.run(10*time.Minute, strings.NewReader(stdin), c.kubectl(), args...)
}

// Await waits until each object ("node/second") is as `kubectl wait --for` has
// it, also where nobody has made it yet, which kubectl itself refuses to wait
// for.
func (c *Cluster) Await(condition string, objects ...string) {
	c.T.Helper()
	for _, object := range objects {
		c.Eventually(patience, object+" is "+condition, func() error {
			if out, err := c.Try("wait", object, "--for="+condition, "--timeout=30s"); err != nil {
				now, _ := c.Try("describe", object)
				return fmt.Errorf("%w: %s\n%s", err, out, now)
			}
			return nil
		})
	}
}

// Shows waits until what a kubectl prints holds every one of wants. Events,
// gaps and logs are for this: they are told beside what they are about, not
// before it.
func (c *Cluster) Shows(wants []string, args ...string) {
	c.T.Helper()
	c.says(wants, "kubectl "+strings.Join(args, " "), func() (string, error) { return c.Try(args...) })
}

// Tells is Shows for another command of the binary.
func (c *Cluster) Tells(wants []string, args ...string) {
	c.T.Helper()
	c.says(wants, "setpoint "+strings.Join(args, " "), func() (string, error) { return c.TrySetpoint(args...) })
}

func (c *Cluster) says(wants []string, what string, say func() (string, error)) {
	c.T.Helper()
	c.Eventually(patience, what, func() error {
		out, err := say()
		for _, want := range wants {
			if err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("want %q in it", want)
			}
		}
		if err != nil {
			return fmt.Errorf("%w:\n%s", err, out)
		}
		return nil
	})
}

// Apply files a manifest.
func (c *Cluster) Apply(manifest string) string {
	c.T.Helper()
	out, err := c.Input(manifest, "apply", "-f", "-")
	if err != nil {
		c.T.Fatalf("kubectl apply: %v\n%s\n%s", err, out, manifest)
	}
	return out
}

// Command prepares a kubectl that the test runs itself (log -f, port-forward);
// it ends with ctx.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.kubectl(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	return cmd
}

// kubectl is unpacked once for all tests, by the binary itself.
func (c *Cluster) kubectl() string {
	c.T.Helper()
	kubectlOnce.Do(func() {
		dir := filepath.Join(os.TempDir(), fmt.Sprintf("sp-kubectl-%d", os.Getuid()))
		cmd := exec.Command(Binary(c.T), "--data-dir", dir, "kubectl", "version", "--client")
		cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			kubectlErr = fmt.Errorf("setpoint kubectl: %w\n%s", err, out)
			return
		}
		found, err := filepath.Glob(filepath.Join(dir, "*", "*", "kubectl"))
		if more, _ := filepath.Glob(filepath.Join(dir, "*", "kubectl")); err == nil {
			found = append(found, more...)
		}
		if len(found) == 0 {
			kubectlErr = fmt.Errorf("setpoint kubectl left no kubectl below %s", dir)
			return
		}
		kubectlPath = found[len(found)-1]
	})
	if kubectlErr != nil {
		c.T.Fatal(kubectlErr)
	}
	return kubectlPath
}

var (
	kubectlOnce sync.Once
	kubectlPath string
	kubectlErr  error
)

func (c *Cluster) run(limit time.Duration, stdin io.Reader, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("still running after %s", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	cmd.Stdin = stdin
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.String(), err
}

// patience is how long the harness waits for anything at least. It only decides
// how long a test takes that fails: a busy machine is no failure.
const patience = 5 * time.Minute

// Eventually tries f until it returns nil; after limit, or patience if that is
// longer, the test fails with f's last error. Between tries it waits, the only
// place where a test does.
func (c *Cluster) Eventually(limit time.Duration, what string, f func() error) {
	c.T.Helper()
	limit = max(limit, patience)
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.T.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// StartServer starts `setpoint server` alone: API server and store.
func StartServer(t testing.TB, args ...string) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "sp-")
	if err != nil {
		t.Fatal(err)
	}
	return StartServerIn(t, dir, args...)
}

// StartServerIn starts one in a folder that the test has prepared; it is
// removed when the test ends.
func StartServerIn(t testing.TB, dir string, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{T: t, Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfigs", "admin.kubeconfig"), RequestLog: filepath.Join(dir, "requests.jsonl")}
	c.args = append([]string{"server", "--request-log", c.RequestLog}, args...)
	t.Cleanup(func() {
		if c.process != nil {
			c.process.Stop()
		}
		os.RemoveAll(dir)
	})
	c.Up()
	return c
}
