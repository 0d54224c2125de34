package cli

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNextLine: what is said to type next works as it is, whatever the data
// folder is called.
func TestNextLine(t *testing.T) {
	for _, dir := range []string{"/data", "/my data/x", "/it's", "/$HOME", "/a;b", "/a\nb", "/`x`", `/a\b`, "/~", "/#", "/ä", "/*"} {
		c := &common{dataDir: filepath.Clean(dir)}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s|' "+c.call()+" down").Output()
		if want := "--data-dir|" + dir + "|down|"; err != nil || len(out) < len(want) || string(out[len(out)-len(want):]) != want {
			t.Errorf("%q: %q, %v, want %q at its end", dir, out, err, want)
		}
	}
}
