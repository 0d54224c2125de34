package clients

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/freeport"
)

// operatorDir is examples/postgres-operator, written with controller-runtime.
const operatorDir = "../../examples/postgres-operator"

// goTool is the go command in the operator's folder. It may have to compile
// much.
func goTool(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = operatorDir
	return cmd
}

// TestOperatorSuite: an operator's own suite passes against envtest's API
// server, and what of it goes by what the loops do with them turned on.
func TestOperatorSuite(t *testing.T) {
	dir := t.TempDir()
	for _, mode := range []struct {
		loops    string
		flags    []string
		packages string
		passed   int
	}{
		{"", nil, "./...", 3},
		{"1", []string{"--with-controllers"}, "./controller", 1},
	} {
		assets := filepath.Join(dir, "assets"+mode.loops)
		run(t, "", os.Getenv("SETPOINT"), append([]string{"envtest", assets}, mode.flags...)...)
		test := goTool(t, "test", "-vet=off", "-ldflags=-s -w", "-count=1", mode.packages)
		test.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "WITH_CONTROLLERS="+mode.loops)
		if out, err := test.CombinedOutput(); err != nil || strings.Count("\n"+string(out), "\nok ") != mode.passed {
			t.Errorf("envtest %v: %v\n%s", mode.flags, err, out)
		}
	}
}

// TestOperator: the operator runs beside a cluster and does its work there:
// kubectl files, reads, watches and deletes in either version of its API.
func TestOperator(t *testing.T) {
	program := filepath.Join(t.TempDir(), "postgres-operator")
	if out, err := goTool(t, "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	ns := space(t, "operator")
	kubectl(t, "", "apply", "-f", operatorDir+"/config/crd.yaml", "-f", operatorDir+"/config/webhooks.yaml")
	t.Cleanup(func() {
		tryKubectl(t, "", "delete", "-f", operatorDir+"/config/crd.yaml", "-f", operatorDir+"/config/webhooks.yaml")
	})
	at := fmt.Sprint("127.0.0.1:", freeport.Port(t))
	var said bytes.Buffer
	operator := exec.Command(program, "--home", ns, "--webhook-url", "https://"+at)
	operator.Stdout, operator.Stderr = &said, &said
	if err := operator.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		operator.Process.Signal(syscall.SIGTERM)
		operator.Wait()
		if t.Failed() {
			t.Logf("the operator said:\n%s", said.String())
		}
	})
	const old = "postgresclusters.v1alpha1.database.example.com"
	eventually(t, func(context.Context) error { // until the webhooks answer, whoever needs them is refused
		out, err := tryKubectl(t, `
apiVersion: database.example.com/v1alpha1
kind: PostgresCluster
metadata: {name: shop}
spec: {storageGiB: 1}
`, "apply", "-n", ns, "-f", "-")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	has(t, "read as v1", kubectl(t, "", "get", "pg/shop", "-n", ns, "-o", "jsonpath={.apiVersion} {.spec}"), "database.example.com/v1 ", `"version":17`, `"storage":"1Gi"`, `"replicas":1`, `"max_connections":"100"`)
	has(t, "ready", kubectl(t, "", "wait", "-n", ns, "pg/shop", "--for=condition=Ready", "--timeout=5m"), "condition met")
	kubectl(t, "", "scale", "-n", ns, "pg/shop", "--replicas=3")
	has(t, "ready", kubectl(t, "", "wait", "-n", ns, old+"/shop", "--for=jsonpath={.status.readyInstances}=3", "--timeout=5m"), "condition met")
	has(t, "a table of the old version", kubectl(t, "", "get", old, "-n", ns), "PHASE", "Running", "is deprecated")
	has(t, "explain", kubectl(t, "", "explain", "postgrescluster.spec", "--api-version=database.example.com/v1alpha1"), "storageGiB", "postgresVersion")
	out, err := tryKubectl(t, "", "patch", "-n", ns, "pg/shop", "--type=merge", "-p", `{"spec":{"parameters":{"port":"1"}}}`)
	if err == nil {
		t.Error("a parameter of the operator's own is taken")
	}
	has(t, "refused", out, "spec.parameters[port]: Forbidden: the operator sets it")
	has(t, "warned", kubectl(t, "", "patch", "-n", ns, "pg/shop", "--type=merge", "-p", `{"spec":{"replicas":4}}`), "Warning: spec.replicas: 4 servers survive")

	kubectl(t, "", "delete", "-n", ns, old+"/shop", "--timeout=5m")
	eventually(t, func(context.Context) error {
		if left := kubectl(t, "", "get", "statefulset,service,secret,configmap,pod,pg", "-n", ns, "-l", "app.kubernetes.io/instance=shop", "-o", "name"); left != "" {
			return fmt.Errorf("left are\n%s", left)
		}
		return nil
	})
	if list := kubectl(t, "", "get", "configmap", "postgres-clusters", "-n", ns, "-o", "jsonpath={.data}"); strings.Contains(list, "shop") {
		t.Errorf("it is still on the list: %s", list)
	}
}
