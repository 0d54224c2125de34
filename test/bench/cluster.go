package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/kubeconfig"
)

// cluster is a running `setpoint up` in a folder of its own.
type cluster struct {
	binary string
	dir    string
	cmd    *exec.Cmd
	base   string
	// clients have one TCP connection each, which their users share.
	clients  []*http.Client
	profiles *profileFolder // nil: none wanted
	ready    time.Duration  // from the start of the process to /readyz 200, seen from outside
}

// start begins a cluster and waits for /readyz.
func start(ctx context.Context, binary string, args []string) (*cluster, error) {
	if binary == "" {
		return nil, errors.New("name the binary by -setpoint or SETPOINT")
	}
	dir, err := os.MkdirTemp("", "sp-bench-")
	if err != nil {
		return nil, err
	}
	c := &cluster{binary: binary, dir: dir}
	c.cmd = exec.Command(binary, append([]string{"--data-dir", dir, "up"}, args...)...)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		c.stop()
		return nil, fmt.Errorf("setpoint up ended early: %w", err)
	}
	c.ready = time.Since(begin)
	go io.Copy(io.Discard, out)
	if err := c.connect(4); err != nil {
		c.stop()
		return nil, err
	}
	return c, c.do(ctx, 0, http.MethodGet, "/readyz", "", nil, nil)
}

// connect opens n clients, each with a connection of its own.
func (c *cluster) connect(n int) error {
	cfg, err := kubeconfig.Load(filepath.Join(c.dir, "kubeconfigs", "admin.kubeconfig"))
	if err != nil {
		return err
	}
	c.base = cfg.Host
	for range n {
		tlsConfig, err := rest.TLSConfigFor(cfg)
		if err != nil {
			return err
		}
		c.clients = append(c.clients, &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, DisableCompression: true}})
	}
	return nil
}

type acceptKey struct{}

// accepting makes requests ask for another media type than JSON.
func accepting(ctx context.Context, mediaType string) context.Context {
	return context.WithValue(ctx, acceptKey{}, mediaType)
}

func acceptOf(ctx context.Context) string {
	if t, ok := ctx.Value(acceptKey{}).(string); ok {
		return t
	}
	return "application/json"
}

// do sends one request over the i-th client.
func (c *cluster) do(ctx context.Context, i int, method, path, contentType string, body io.Reader, answer func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", acceptOf(ctx))
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := c.clients[i%len(c.clients)].Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	if answer == nil {
		answer = func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	}
	return answer(res.Body)
}

// stop ends the cluster and forgets it.
func (c *cluster) stop() {
	c.cmd.Process.Signal(syscall.SIGTERM)
	c.cmd.Wait()
	if out, err := exec.Command(c.binary, "--data-dir", c.dir, "down", "--purge").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: down: %v\n%s", err, out)
	}
	os.RemoveAll(c.dir)
}

// cpu is the processor time that the server has used.
func (c *cluster) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The command's name, in parentheses, may hold spaces.
	words := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.ParseInt(words[11], 10, 64)
	system, _ := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // in ticks of 1/100 s
}

// resident is the server's resident memory in MiB.
func (c *cluster) resident() float64 { return c.status("VmRSS:") }

// peak is the most that resident has been.
func (c *cluster) peak() float64 { return c.status("VmHWM:") }

// status is an amount of memory in /proc, in MiB.
func (c *cluster) status(name string) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), name)
	kib, _ := strconv.ParseFloat(strings.Fields(after + " 0")[0], 64)
	return round(kib / 1024)
}
