package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// maxLog bounds the daemon's log; one older log of that size is kept.
	maxLog = 8 << 20
	// daemonGrace is what a daemon that is replaced or stopped gets to end.
	daemonGrace = 10 * time.Second
)

// daemon starts and finds the processes of an instance.
//
// A daemon is known by its arguments: the program's path holds the hash of the
// runtime, the configuration file's name the hash of its content. So they
// tell both that a process is ours and whether it is the one we would start.
type daemon struct {
	layout layout
	config daemonConfig
}

func (d *daemon) args() []string {
	return []string{d.config.paths.Containerd, "--config", d.layout.config(d.config.hash())}
}

// isDaemon tells whether args are those of a daemon of the instance, of any version.
func (l layout) isDaemon(args []string) bool {
	return len(args) == 3 && filepath.Base(args[0]) == "containerd" && args[1] == "--config" &&
		filepath.Dir(args[2]) == l.home() && strings.HasPrefix(filepath.Base(args[2]), "config-")
}

// isShim tells whether args are those of a shim of the instance.
func (l layout) isShim(args []string) bool {
	if len(args) == 0 || !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") {
		return false
	}
	for i, a := range args[1:] {
		if a == "-address" && i+2 < len(args) {
			return args[i+2] == l.socket()
		}
	}
	return false
}

// ensure returns a running daemon of the wanted version: the one that runs, or
// a new one. Any other of the instance is ended first: two would fight for the
// same database.
func (d *daemon) ensure(ctx context.Context) (p *process, adopted bool, err error) {
	running, err := findProcesses(d.layout.isDaemon)
	if err != nil {
		return nil, false, err
	}
	want := strings.Join(d.args(), "\x00")
	for _, r := range running {
		if p == nil && strings.Join(r.args, "\x00") == want {
			p = r
			continue
		}
		err := r.end(ctx, daemonGrace)
		r.close()
		if err != nil {
			return nil, false, err
		}
	}
	if p != nil {
		return p, true, nil
	}
	p, err = d.start()
	return p, false, err
}

// start starts the daemon apart from us: in a session of its own, so that no
// signal to our terminal reaches it, and in cgroups of its own, so that it is
// not killed with ours, as init systems do with the rest of a service. The
// shims it starts inherit both.
func (d *daemon) start() (*process, error) {
	if err := d.writeConfig(); err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	// Appending, so that trimLog may cut the file while the daemon has it open.
	log, err := os.OpenFile(d.layout.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := d.args()
	started, err := os.StartProcess(args[0], args, &os.ProcAttr{
		Dir:   "/",
		Env:   daemonEnv(os.Environ()),
		Files: []*os.File{null, log, log},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	defer started.Release()
	// Without cgroups of its own it works as well; there may be none to be had.
	_ = joinCgroups(d.layout.cgroup, started.Pid)
	return openProcess(started.Pid)
}

// daemonEnv keeps of our environment what the daemon and the programs it runs
// can use. PATH is widened by where CNI plugins look for iptables and nft.
func daemonEnv(environ []string) []string {
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	var env []string
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		switch strings.ToUpper(name) {
		case "PATH":
			path = value + ":" + path
		case "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR", "TZ":
			env = append(env, e)
		}
	}
	return append(env, "PATH="+path)
}

// writeConfig writes the configuration and removes those of other versions.
func (d *daemon) writeConfig() error {
	path := d.layout.config(d.config.hash())
	old, err := filepath.Glob(d.layout.config("*"))
	if err != nil {
		return err
	}
	for _, o := range old {
		if o != path {
			if err := os.Remove(o); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	if err := os.WriteFile(path+".new", []byte(d.config.toml()), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// trimLog keeps the log below its bound. The daemon holds the file open, so it
// is copied and cut rather than renamed; a line written in between is lost.
func (l layout) trimLog() error {
	info, err := os.Stat(l.log())
	if err != nil || info.Size() <= maxLog {
		return err
	}
	from, err := os.Open(l.log())
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(l.log() + ".1")
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := from.Seek(-maxLog, io.SeekEnd); err != nil {
		return err
	}
	if _, err := io.CopyN(to, from, maxLog); err != nil {
		return err
	}
	return os.Truncate(l.log(), 0)
}

// lastWords returns the end of the log, for the error that says the daemon
// would not start.
func (l layout) lastWords() string {
	log, err := os.ReadFile(l.log())
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "\n")
}
