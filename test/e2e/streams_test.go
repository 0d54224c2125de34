package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestStreams: terminals, and streams that break in the middle, at either end.
func TestStreams(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t)
	c.Apply(onePod("stay", image, "", "") +
		onePod("shell", image, "", `command: [sh], stdin: true, tty: true`))
	ready(c, "stay", "shell")
	t.Run("a terminal", func(t *testing.T) { testTerminal(t, c.In(t)) })
	t.Run("a terminal of the container's", func(t *testing.T) { testAttachTerminal(t, c.In(t)) })
	t.Run("cp that is interrupted", func(t *testing.T) { testCopyBroken(t, c.In(t)) })
	t.Run("port-forward that is interrupted", func(t *testing.T) { testForwardBroken(t, c.In(t), image) })
	// These kill it, and so are no parts of their own.
	testLogsOfEnded(t, c, image)
	testStreamsOverKill(t, c)
}

func testTerminal(t *testing.T, c *harness.Cluster) {
	term := c.Terminal(31, 97, "exec", "-it", "stay", "--", "sh", "-c", `while true; do echo "size $(stty size)."; read -t 1 -n 1 x && exit 5; done`)
	term.Expect("size 31 97.")
	term.Resize(43, 121)
	term.Expect("size 43 121.")
	term.Type("x")
	if err := term.Wait(); err == nil || !strings.Contains(term.Said(), "exit code 5") {
		t.Errorf("it exits 5: %v\n%s", err, term.Said())
	}
	// The terminal's own keys reach the command there, not kubectl here.
	term = c.Terminal(24, 80, "exec", "-it", "stay", "--", "sh", "-c", `trap 'echo caught; exit 3' INT; echo armed; while true; do sleep 0.1; done`)
	term.Expect("armed")
	term.Type("\x03")
	if err := term.Wait(); err == nil || !strings.Contains(term.Said(), "caught") || !strings.Contains(term.Said(), "exit code 3") {
		t.Errorf("Ctrl-C: %v\n%s", err, term.Said())
	}
}

func testAttachTerminal(t *testing.T, c *harness.Cluster) {
	term := c.Terminal(33, 99, "attach", "-it", "shell")
	// A size takes its way beside the keys, and kubectl first tells one that is
	// larger by one, so that programs draw anew: the shell is asked again.
	size := func(want string) {
		for range 300 {
			if strings.Contains(term.Said(), want) {
				break
			}
			term.Type("\necho \"size $(stty size).\"\n")
			time.Sleep(100 * time.Millisecond)
		}
		term.Expect(want)
	}
	size("size 33 99.")
	term.Resize(44, 122)
	size("size 44 122.")
	term.Type("exit 0\n")
	if err := term.Wait(); err != nil {
		t.Errorf("attached to what ended well: %v\n%s", err, term.Said())
	}
	c.Eventually(time.Minute, "the shell that was left is started again", func() error {
		if s := pod(c, "shell").Status.ContainerStatuses[0]; s.RestartCount != 1 || s.State.Running == nil {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
}

// testCopyBroken kills kubectl in the middle of a copy, in both directions.
func testCopyBroken(t *testing.T, c *harness.Cluster) {
	dir := t.TempDir()
	content := make([]byte, 64<<20)
	rand.Read(content)
	if err := os.WriteFile(filepath.Join(dir, "in"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	want := hex.EncodeToString(sum[:])
	size := func() string { return strings.TrimSpace(sh(c, "stay", "stat -c %s /tmp/file 2>/dev/null || echo 0")) }
	breaks := func(what string, begun func() bool, args ...string) {
		t.Helper()
		cmd := c.Command(t.Context(), args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c.Eventually(time.Minute, what+" begins", func() error {
			if begun() {
				return nil
			}
			return fmt.Errorf("nothing yet")
		})
		cmd.Process.Kill()
		cmd.Wait()
	}
	breaks("a copy to the pod", func() bool { return size() != "0" }, "cp", filepath.Join(dir, "in"), "stay:/tmp/file")
	c.Kubectl("cp", filepath.Join(dir, "in"), "stay:/tmp/file")
	if got := sh(c, "stay", "sha256sum /tmp/file"); !strings.HasPrefix(got, want) {
		t.Errorf("copied again after a break: %s, want %s", got, want)
	}
	out := filepath.Join(dir, "out")
	breaks("a copy from the pod", func() bool { info, err := os.Stat(out); return err == nil && info.Size() > 0 }, "cp", "stay:/tmp/file", out)
	c.Kubectl("cp", "stay:/tmp/file", out)
	if got, err := os.ReadFile(out); err != nil || sha256.Sum256(got) != sum {
		t.Errorf("copied back after a break: %v, %d bytes", err, len(got))
	}
	// The tar of the copy that broke stays in the pod, as upstream: CRI names
	// nothing by which to end a command that was begun.
}

// forward starts a port-forward and returns its local address.
func forward(t *testing.T, c *harness.Cluster, target string) (*exec.Cmd, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	cmd := c.Command(ctx, "port-forward", target, ":8080")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, _, _ := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " ")
	if err != nil {
		t.Fatalf("port-forward %s said %q: %v", target, line, err)
	}
	return cmd, addr
}

// testForwardBroken: whichever end goes, the other is told, and a new forward
// works.
func testForwardBroken(t *testing.T, c *harness.Cluster, image string) {
	cmd, addr := forward(t, c, "pod/stay")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n") // and never the end of it
	cmd.Process.Kill()
	cmd.Wait()
	closed(t, "a connection whose kubectl was killed", conn)
	again, addr := forward(t, c, "pod/stay")
	if body, err := get("http://" + addr + "/"); err != nil || !strings.Contains(body, "stay answers") {
		t.Errorf("forwarded again: %q, %v", body, err)
	}
	again.Process.Kill()
	again.Wait()

	c.Apply(onePod("leave", image, "", listens))
	ready(c, "leave")
	cmd, addr = forward(t, c, "pod/leave")
	if conn, err = net.Dial("tcp", addr); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n")
	if body, err := get("http://" + addr + "/"); err != nil || !strings.Contains(body, "leave answers") {
		t.Errorf("while a connection is open: %q, %v", body, err)
	}
	c.Kubectl("delete", "pod", "leave", "--timeout=300s")
	closed(t, "a connection whose pod went", conn)
	cmd.Process.Kill()
	cmd.Wait()
}

func closed(t *testing.T, what string, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(5 * time.Minute))
	_, err := io.Copy(io.Discard, conn)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Errorf("%s stays open", what)
	}
}

// testStreamsOverKill: with the process that carries them gone, streams end and
// say so; the containers know nothing of it.
func testStreamsOverKill(t *testing.T, c *harness.Cluster) {
	before := containerIDs(c, "")
	term := c.Terminal(24, 80, "exec", "-it", "stay", "--", "sh", "-c", "echo begun; sleep 1000000")
	term.Expect("begun")
	attached := c.Terminal(24, 80, "attach", "-it", "shell")
	attached.Type("\necho at$(echo tached)\n")
	attached.Expect("attached")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	follow := c.Command(ctx, "logs", "-f", "shell")
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	_, addr := forward(t, c, "pod/stay")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n")

	c.Kill()
	if err := term.Wait(); err == nil {
		t.Errorf("an exec whose server was killed ends as if all were well:\n%s", term.Said())
	}
	attached.Wait()
	follow.Wait()
	closed(t, "a forwarded connection whose server was killed", conn)
	c.Up()
	c.Eventually(time.Minute, "exec works again", func() error {
		out, err := c.Try("exec", "stay", "--", "hostname")
		if err == nil && strings.TrimSpace(out) != "stay" {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
	if after := containerIDs(c, ""); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("containers changed: %v, then %v", before, after)
	}
}

// testLogsOfEnded: logs outlive containers, for as long as there is the pod.
func testLogsOfEnded(t *testing.T, c *harness.Cluster, image string) {
	words := func(name string, args ...string) string {
		t.Helper()
		return strings.TrimSpace(c.Kubectl(append([]string{"logs", name}, args...)...))
	}
	c.Apply(onePod("failed", image, `restartPolicy: Never, initContainers: [{name: before, image: "`+image+`", command: [echo, before]}]`,
		`command: [sh, -c, "echo last words; exit 3"]`) +
		onePod("again", image, `volumes: [{name: d, emptyDir: {}}]`,
			`volumeMounts: [{name: d, mountPath: /d}], command: [sh, -c, "n=$(ls /d | wc -l); echo run $n; touch /d/$n; [ $n = 1 ] && sleep 1000000; exit 1"]`))
	c.Await("jsonpath={.status.phase}=Failed", "pod/failed")
	if got := words("failed", "-c", "a"); got != "last words" {
		t.Errorf("logs of a pod that failed: %q", got)
	}
	if got := words("failed", "-c", "a", "-f"); got != "last words" { // and does not wait for more
		t.Errorf("logs -f of a pod that failed: %q", got)
	}
	if got := words("failed", "-c", "before"); got != "before" {
		t.Errorf("logs of its init container: %q", got)
	}
	contains(t, "previous of one that never ran again", fails(c, "", "logs", "failed", "-c", "a", "--previous"), `previous terminated container "a" in pod "failed" not found`)
	until(c, "again", "it runs again", func(p corev1.Pod) error {
		if s := p.Status.ContainerStatuses; len(s) != 1 || s[0].RestartCount != 1 || s[0].State.Running == nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	check := func(when string) {
		t.Helper()
		for want, args := range map[string][]string{"run 1": {"again"}, "run 0": {"again", "--previous"}} {
			c.Eventually(time.Minute, when+", logs", func() error { // it runs before it says so
				out, err := c.Try(append([]string{"logs"}, args...)...)
				if got := strings.TrimSpace(out); err == nil && got != want {
					err = fmt.Errorf("%v: %q, want %q", args, got, want)
				}
				return err
			})
		}
	}
	check("after a restart")
	c.Kill()
	c.Up()
	c.Eventually(time.Minute, "the node answers again", func() error {
		_, err := c.Try("logs", "again")
		return err
	})
	check("after the server was killed")
	c.Kubectl("delete", "pod", "failed", "again", "--timeout=300s")
	contains(t, "logs of a pod that is gone", fails(c, "", "logs", "again"), `pods "again" not found`)
}
