package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The help of every command is golden: whoever changes it reads it.
func TestHelp(t *testing.T) {
	t.Setenv("SETPOINT_DATA_DIR", "DATA")
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			return
		}
		path := cmd.CommandPath()
		t.Run(path, func(t *testing.T) {
			var out bytes.Buffer
			root := New()
			root.SetOut(&out)
			root.SetArgs(append(strings.Fields(path)[1:], "--help"))
			if cmd.DisableFlagParsing {
				root.SetArgs(append([]string{"help"}, strings.Fields(path)[1:]...))
			}
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", strings.ReplaceAll(path, " ", "-")+".txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != string(want) {
				t.Errorf("help differs from %s (go test -update writes it anew):\n%s", golden, got)
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(New())
}

// Wrong flags and arguments end with status 2 and say what was wrong.
func TestUsageErrors(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
	}{
		{"up --nodes sim=x", "--nodes \"sim=x\": must be host, none or sim=N"},
		{"up --listen nonsense", "--listen \"nonsense\": must be HOST:PORT"},
		{"up --listen example.com:1", "the host must be an IP address"},
		{"up --container-runtime-endpoint tcp://x", "must begin with unix://"},
		{"up --cluster-cidr 10.0.0.0/16", "give both or none"},
		{"up --cluster-cidr 10.0.0.0/8 --service-cidr 10.43.0.0/16", "overlap"},
		{"up --node-name Bad", "--node-name \"Bad\": a lowercase RFC 1123 subdomain"},
		{"up extra", "unknown command \"extra\""},
		{"up --no-such-flag", "unknown flag: --no-such-flag"},
		{"up --admission-control-config-file nowhere.yaml", "--admission-control-config-file: open nowhere.yaml"},
		{"server --admission-control-config-file testdata/setpoint.txt", "--admission-control-config-file: testdata/setpoint.txt: admission configuration: "},
		{"up --scheduler-config nowhere.yaml", "--scheduler-config: open nowhere.yaml"},
		{"up --scheduler-config testdata/setpoint.txt", "--scheduler-config testdata/setpoint.txt: scheduler configuration: "},
		{"controllers", "--kubeconfig is required"},
		{"agent", "--server is required"},
		{"version -o yaml", "must be json"},
		{"status --log-level loud -o text", "must be json"},
		{"image import", "requires at least 1 arg"},
	} {
		t.Run(test.args, func(t *testing.T) {
			var out, errOut bytes.Buffer
			args := append([]string{"--data-dir", t.TempDir()}, strings.Fields(test.args)...)
			if code := Main(args, nil, &out, &errOut); code != 2 {
				t.Errorf("exit status %d, want 2", code)
			}
			if !strings.Contains(errOut.String(), test.want) {
				t.Errorf("said %q, want %q", errOut.String(), test.want)
			}
		})
	}
}

// Without a cluster, commands say so in one line.
func TestNoCluster(t *testing.T) {
	for _, args := range []string{"status", "down", "demo", "image list"} {
		var out, errOut bytes.Buffer
		code := Main(append([]string{"--data-dir", t.TempDir()}, strings.Fields(args)...), nil, &out, &errOut)
		if code != 1 || !strings.Contains(errOut.String(), "no cluster in") || strings.Count(errOut.String(), "\n") != 1 {
			t.Errorf("%s: exit status %d, %q", args, code, errOut.String())
		}
	}
}
