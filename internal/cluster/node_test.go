package cluster

import (
	"os"
	"strings"
	"testing"
)

// TestNodeName: the flag first, then what the data folder remembers, then the
// host name; a folder that cannot be read is no new machine.
func TestNodeName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := func(flag, want string) {
		t.Helper()
		got, err := nodeName(&Options{DataDir: dir, NodeName: flag})
		if err != nil || got != want {
			t.Errorf("with --node-name %q: got %q and error %v, want %q", flag, got, err, want)
		}
	}
	name("", strings.ToLower(host))
	name("other", "other")

	s, err := openState(&Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	name("", strings.ToLower(host))
	s.Node = "first"
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	name("", "first")
	name("other", "other")

	if err := os.WriteFile(s.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := nodeName(&Options{DataDir: dir}); err == nil {
		t.Errorf("with a spoilt cluster.json: got %q and no error", got)
	}
}
