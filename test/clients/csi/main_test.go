package csi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// sidecars is the environment variable with the folder of the sidecars. They are
// built before there is no way out any more; "": they could not be had.
const sidecars = "CSI_SIDECARS"

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(sidecars); !ok {
		dir, err := build()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Setenv(sidecars, dir)
	}
	harness.Main(m)
}

const prefix = "github.com/kubernetes-csi/external-"

// build builds the sidecars; "" when the module proxy does not give them.
func build() (dir string, err error) {
	if out, err := exec.Command("go", "-C", "sidecars", "mod", "download").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the module proxy does not give what the sidecars are built from: %v\n%s", err, out)
		return "", nil
	}
	if dir, err = filepath.Abs("../../../.cache/csi"); err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "-C", "sidecars", "build", "-p", "2", "-ldflags", "-s -w", "-o", dir+"/",
		prefix+"attacher/v4/cmd/csi-attacher", prefix+"provisioner/v6/cmd/csi-provisioner", prefix+"resizer/v2/cmd/csi-resizer",
		prefix+"snapshotter/v8/cmd/csi-snapshotter", prefix+"snapshotter/v8/cmd/snapshot-controller")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the sidecars: %w\n%s", err, out)
	}
	return dir, nil
}

// file is a file of one of the modules that the sidecars are built from.
func file(t *testing.T, module, path string) string {
	t.Helper()
	out, err := exec.Command("go", "-C", "sidecars", "list", "-m", "-f", "{{.Dir}}", prefix+module).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", module, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), path)
}
