package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// cluster is the cluster that the suite runs against: this machine is its
// first node, another network namespace its second; their containers are real.
type cluster struct {
	setpoint, dataDir   string
	kubeconfig, kubectl string
	server              *exec.Cmd
	second              *machine
	registry            *registry
}

// startCluster starts a cluster and loads the images into it.
func startCluster(o *options) (_ *cluster, err error) {
	dir, err := os.MkdirTemp("", "sp-") // short: sockets lie in it
	if err != nil {
		return nil, err
	}
	c := &cluster{setpoint: o.setpoint, dataDir: dir, kubeconfig: filepath.Join(dir, "admin")}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	if c.second, err = startMachine(c.setpoint); err != nil {
		return nil, err
	}
	archive := (&suite{cache: o.cache}).archive()
	if c.registry, err = openRegistry(archive); err != nil {
		return nil, err
	}
	const address = hereIP + ":5000"
	if err := c.registry.serve(address); err != nil {
		return nil, err
	}
	for _, dir := range []string{dir, c.second.dataDir} {
		if err := useRegistry(dir, address); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(filepath.Join(o.cache, "setpoint.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// One test waits until a page's revision is forgotten; upstream's servers
	// forget after five minutes.
	c.server = exec.Command(c.setpoint, "--data-dir", dir, "up", "--kubeconfig", c.kubeconfig, "--node-name", "node-1",
		"--listen", hereIP+":6443", "--node-ip", hereIP, "--history-age", "3m")
	c.server.Stderr = log
	// Ctrl-C is for the tests first; stop ends it.
	c.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.server.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("setpoint up ended early; %s tells more", log.Name())
	}
	fmt.Fprint(os.Stderr, line)
	go io.Copy(io.Discard, out)
	assets := filepath.Join(dir, "assets")
	if err := run(c.setpoint, "envtest", assets); err != nil {
		return nil, err
	}
	c.kubectl = filepath.Join(assets, "kubectl")
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return nil, err
	}
	if err := c.second.join("https://"+hereIP+":6443", strings.TrimSpace(string(token)), log); err != nil {
		return nil, err
	}
	for _, node := range []string{"node-1", "node-2"} {
		if err := c.setpointKubectl("wait", "--for=create", "node/"+node, "--timeout=10m"); err != nil {
			return nil, err
		}
		if err := c.setpointKubectl("wait", "--for=condition=Ready", "node/"+node, "--timeout=10m"); err != nil {
			return nil, err
		}
	}
	if err := run(c.setpoint, "--data-dir", dir, "image", "import", archive); err != nil {
		return nil, err
	}
	if err := c.second.run("image", "import", archive); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cluster) setpointKubectl(args ...string) error {
	return run(c.setpoint, append([]string{"--data-dir", c.dataDir, "kubectl"}, args...)...)
}

// stop ends the cluster and everything that it started.
func (c *cluster) stop() {
	if c.registry != nil {
		defer c.registry.close()
	}
	if c.second != nil {
		c.second.stop()
	}
	if c.server != nil && c.server.Process != nil {
		end(c.server)
	}
	if err := run(c.setpoint, "--data-dir", c.dataDir, "down", "--purge"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return // what is left there is needed to find out why
	}
	if err := os.RemoveAll(c.dataDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
