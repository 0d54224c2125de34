package containerd

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestProcessesAreTold(t *testing.T) {
	l := layout{data: "/data/a", run: "/run/setpoint-a"}
	for _, test := range []struct {
		args         string
		daemon, shim bool
	}{
		{"/data/a/bin/01/bin/containerd --config /data/a/containerd/config-77.toml", true, false},
		{"/data/b/bin/02/bin/containerd --config /data/a/containerd/config-99.toml", true, false},
		{"/data/a/bin/01/bin/containerd --config /data/b/containerd/config-77.toml", false, false},
		{"/usr/bin/containerd", false, false},
		{"/usr/bin/containerd --config /etc/containerd/config.toml", false, false},
		{"vi --config /data/a/containerd/config-77.toml", false, false},
		{"/data/a/bin/01/bin/containerd-shim-runc-v2 -namespace k8s.io -id 7 -address /run/setpoint-a/containerd.sock", false, true},
		{"/data/a/bin/01/bin/containerd-shim-runc-v2 -namespace k8s.io -id 7 -address /run/setpoint-b/containerd.sock", false, false},
		{"/data/a/bin/01/bin/containerd-shim-runc-v2 -address", false, false},
		{"", false, false},
	} {
		args := strings.Fields(test.args)
		if got := l.isDaemon(args); got != test.daemon {
			t.Errorf("isDaemon(%s) = %v", test.args, got)
		}
		if got := l.isShim(args); got != test.shim {
			t.Errorf("isShim(%s) = %v", test.args, got)
		}
	}
}

func TestDaemonEnvIsSmall(t *testing.T) {
	got := daemonEnv([]string{"HOME=/root", "PATH=/opt/bin", "https_proxy=http://p", "SECRET=1", "NOTIFY_SOCKET=/x"})
	want := []string{"https_proxy=http://p", "PATH=/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if !slices.Equal(got, want) {
		t.Errorf("the environment is %q, want %q", got, want)
	}
}

func TestTrimLog(t *testing.T) {
	l := layout{data: t.TempDir()}
	if err := os.MkdirAll(l.home(), 0o755); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(l.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write := func(s string) {
		t.Helper()
		if _, err := log.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	write("one\ntwo\nthree\nfour\n")
	if got, want := l.lastWords(), "two\nthree\nfour"; got != want {
		t.Errorf("lastWords() = %q, want %q", got, want)
	}
	if err := l.trimLog(); err != nil {
		t.Fatal(err)
	}
	if info, err := log.Stat(); err != nil || info.Size() == 0 {
		t.Errorf("a small log is trimmed")
	}
	write(strings.Repeat(".", maxLog) + "end\n")
	if err := l.trimLog(); err != nil {
		t.Fatal(err)
	}
	write("next\n") // by whoever had it open all along
	now, err := os.ReadFile(l.log())
	if err != nil || string(now) != "next\n" {
		t.Errorf("after trimming the log is %d bytes, %v", len(now), err)
	}
	old, err := os.ReadFile(l.log() + ".1")
	if err != nil || len(old) != maxLog || !bytes.HasSuffix(old, []byte("..end\n")) {
		t.Errorf("the older log is %d bytes, %v", len(old), err)
	}
}

func TestWriteConfigRemovesOthers(t *testing.T) {
	l := layout{data: t.TempDir()}
	if err := os.MkdirAll(l.home(), 0o755); err != nil {
		t.Fatal(err)
	}
	d := daemon{layout: l, config: exampleConfig()}
	if err := d.writeConfig(); err != nil {
		t.Fatal(err)
	}
	d.config.snapshotter = "native"
	if err := d.writeConfig(); err != nil {
		t.Fatal(err)
	}
	got, err := filepath.Glob(filepath.Join(l.home(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{l.config(d.config.hash())}; !slices.Equal(got, want) {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{DataDir: "/data", Instance: "a-1", CgroupParent: "/a/b"}
	if err := good.Validate(); err != nil {
		t.Errorf("%+v: %v", good, err)
	}
	for _, test := range []struct {
		name  string
		spoil func(*Options)
	}{
		{"DataDir", func(o *Options) { o.DataDir = "" }},
		{"Instance", func(o *Options) { o.Instance = "" }},
		{"Instance", func(o *Options) { o.Instance = "../a" }},
		{"Instance", func(o *Options) { o.Instance = "A" }},
		{"Instance", func(o *Options) { o.Instance = "a-" }},
		{"Instance", func(o *Options) { o.Instance = "-a" }},
		{"Instance", func(o *Options) { o.Instance = "a/b" }},
		{"Instance", func(o *Options) { o.Instance = "a-B-c" }},
		{"Instance", func(o *Options) { o.Instance = strings.Repeat("a", 33) }},
		{"CgroupParent", func(o *Options) { o.CgroupParent = "/" }},
		{"CgroupParent", func(o *Options) { o.CgroupParent = "a" }},
		{"CgroupParent", func(o *Options) { o.CgroupParent = "/a/../b" }},
		{"Grace", func(o *Options) { o.Grace = -1 }},
	} {
		bad := good
		test.spoil(&bad)
		if _, err := New(bad); err == nil || !strings.Contains(err.Error(), test.name) {
			t.Errorf("%+v: %v, want an error about %s", bad, err, test.name)
		}
	}
	longest := Options{DataDir: "/data", Instance: strings.Repeat("a", 32)}
	if err := longest.Validate(); err != nil {
		t.Error(err)
	}
	if n := len(Socket(longest.Instance) + ".ttrpc"); n > 107 {
		t.Errorf("the longest socket path has %d bytes, want at most 107", n)
	}
}
