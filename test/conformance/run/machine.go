package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// The two ends of the cable between the machines.
const (
	hereIP  = "192.168.77.1"
	thereIP = "192.168.77.2"
)

// machine stands in for a second machine, since conformance asks for two nodes:
// a network namespace with a cable to the first and no other way out, in which
// an agent runs.
type machine struct {
	setpoint, dataDir string
	hold              *exec.Cmd // holds the namespace and does nothing else; ends with its input
	agent             *exec.Cmd
}

// startMachine makes the machine and its cable.
func startMachine(setpoint string) (_ *machine, err error) {
	m := &machine{setpoint: setpoint, hold: exec.Command("cat")}
	m.hold.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Setpgid: true}
	if _, err := m.hold.StdinPipe(); err != nil {
		return nil, err
	}
	if err := m.hold.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.stop()
		}
	}()
	if m.dataDir, err = os.MkdirTemp("", "sp-"); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"ip", "link", "add", "cable-here", "type", "veth", "peer", "name", "cable-there"},
		{"ip", "link", "set", "cable-there", "netns", fmt.Sprint(m.hold.Process.Pid)},
		{"ip", "addr", "add", hereIP + "/24", "dev", "cable-here"},
		{"ip", "link", "set", "cable-here", "up"},
		m.enter("ip", "link", "set", "lo", "up"),
		m.enter("ip", "addr", "add", thereIP+"/24", "dev", "cable-there"),
		m.enter("ip", "link", "set", "cable-there", "up"),
	} {
		if err := run(args[0], args[1:]...); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// enter is a command line that runs another on the machine. Unlike `ip netns
// exec`, nsenter leaves the mounts, and with them the cgroups, as they are.
func (m *machine) enter(args ...string) []string {
	return append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", m.hold.Process.Pid)}, args...)
}

func (m *machine) run(args ...string) error {
	line := m.enter(append([]string{m.setpoint, "--data-dir", m.dataDir}, args...)...)
	return run(line[0], line[1:]...)
}

// join starts the agent.
func (m *machine) join(server, token string, log io.Writer) error {
	line := m.enter(m.setpoint, "--data-dir", m.dataDir, "agent", "--server", server, "--token", token, "--node-ip", thereIP, "--node-name", "node-2")
	m.agent = exec.Command(line[0], line[1:]...)
	m.agent.Stdout, m.agent.Stderr = log, log
	m.agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return m.agent.Start()
}

// stop ends the machine and all that it runs.
func (m *machine) stop() {
	if m.agent != nil && m.agent.Process != nil {
		end(m.agent)
	}
	if m.dataDir != "" {
		if err := m.run("down", "--purge"); err != nil {
			fmt.Fprintln(os.Stderr, err)
		} else if err := os.RemoveAll(m.dataDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	m.hold.Process.Kill()
	m.hold.Wait()
}

// end asks a process to stop and waits for that.
func end(cmd *exec.Cmd) {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(cmd.Path), err)
	}
	if err := cmd.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(cmd.Path), err)
	}
}
