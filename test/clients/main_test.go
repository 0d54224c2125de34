package clients

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kubeconfig is the administrator's of the cluster that all tests share; its
// pods run on simulated nodes.
var kubeconfig, kubectlPath string

func TestMain(m *testing.M) {
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withCluster(f func() int) (int, error) {
	setpoint := os.Getenv("SETPOINT")
	if setpoint == "" {
		return 0, fmt.Errorf("SETPOINT must name the program to test")
	}
	dir, err := os.MkdirTemp("", "setpoint-clients-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	server := exec.Command(setpoint, "--data-dir", dir, "up", "--nodes", "sim=2", "--listen", "127.0.0.1:0")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
	}()
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		return 0, fmt.Errorf("setpoint up ended early")
	}
	go io.Copy(io.Discard, lines)
	assets := filepath.Join(dir, "assets")
	if out, err := exec.Command(setpoint, "envtest", assets).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("setpoint envtest: %w\n%s", err, out)
	}
	kubeconfig, kubectlPath = filepath.Join(dir, "kubeconfigs", "admin.kubeconfig"), filepath.Join(assets, "kubectl")
	os.Setenv("KUBECONFIG", kubeconfig)
	return f(), nil
}

// command is a client's program, which must end within a quarter of an hour.
func command(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	return cmd
}

// run runs a client's program and returns what it printed.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := command(t, dir, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// kubectl runs kubectl with input and returns what it printed.
func kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t, input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func tryKubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	cmd := command(t, "", kubectlPath, args...)
	cmd.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// has fails the test unless out contains every one of want.
func has(t *testing.T, what, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("%s: no %q in\n%s", what, w, out)
		}
	}
}

// space makes a namespace for a test.
func space(t *testing.T, name string) string {
	t.Helper()
	kubectl(t, "", "create", "namespace", name)
	t.Cleanup(func() {
		exec.Command(kubectlPath, "delete", "namespace", name, "--wait=false").Run()
	})
	return name
}
