package containerd

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func exampleConfig() daemonConfig {
	return daemonConfig{
		paths: Paths{
			Shim: `/data/bin/"quoted"/containerd-shim-runc-v2`,
			Runc: "/data/bin/0123/runc",
		},
		root:        "/data/containerd/root",
		run:         "/run/setpoint-a",
		cniConf:     "/data/cni/net.d",
		cniBin:      []string{"/data/bin/0123/cni", "/opt/cni/bin"},
		registries:  "/data/containerd/registries",
		snapshotter: "overlayfs",
		logLevel:    "warn",
	}
}

func TestConfigGolden(t *testing.T) {
	got := exampleConfig().toml()
	golden := filepath.Join("testdata", "config.toml")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("configuration (-want +got; -update rewrites it):\n%s", diff)
	}
}

// The daemon says how it reads the configuration; every setting of ours must
// be in what it says, or it has a name that the daemon does not know.
func TestDaemonKnowsEverySetting(t *testing.T) {
	paths, err := Unpack(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, lower := range []bool{false, true} {
		config := exampleConfig()
		config.lowerOOMScore = lower
		file := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(file, []byte(config.toml()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(paths.Containerd, "--config", file, "config", "dump").Output()
		if err != nil {
			t.Fatalf("containerd config dump: %v", err)
		}
		read := settings(string(out))
		for setting := range settings(config.toml()) {
			if !read[setting] {
				t.Errorf("the daemon does not know %s", setting)
			}
		}
	}
}

// settings returns what a configuration sets, one string each, with the way of
// writing it normalised: the daemon quotes and indents unlike us.
func settings(toml string) map[string]bool {
	all := make(map[string]bool)
	section := ""
	for line := range strings.Lines(toml) {
		line = strings.NewReplacer(`\`, "", `'`, "", `"`, "").Replace(strings.TrimSpace(line))
		switch {
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case strings.HasPrefix(line, "imports"): // the daemon adds the file itself
		case line != "":
			all[section+" "+line] = true
		}
	}
	return all
}

func TestConfigHashFollowsContent(t *testing.T) {
	a, b := exampleConfig(), exampleConfig()
	if a.hash() != b.hash() {
		t.Error("one configuration has two hashes")
	}
	b.snapshotter = "native"
	if a.hash() == b.hash() {
		t.Error("two configurations have one hash")
	}
}
