package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// helm is the program that HELM names, or else one built from the module in
// the folder helm.
func helm(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("HELM"); path != "" {
		return path
	}
	if out, err := exec.CommandContext(t.Context(), "go", "-C", "helm", "mod", "download").CombinedOutput(); err != nil {
		t.Skipf("the module proxy does not give what helm is built from: %v\n%s", err, out)
	}
	path := filepath.Join(t.TempDir(), "helm")
	build := exec.CommandContext(t.Context(), "go", "-C", "helm", "build", "-p", "2", "-ldflags", "-s -w", "-o", path, "helm.sh/helm/v4/cmd/helm")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build helm: %v\n%s", err, out)
	}
	return path
}

var chart = map[string]string{
	"Chart.yaml":  "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
	"values.yaml": "replicas: 1\n",
	"crds/order.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: orders.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: orders, singular: order, kind: Order, listKind: OrderList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {items: {type: integer, minimum: 1}}}}}}
`,
	"templates/order.yaml": `apiVersion: shop.example.com/v1
kind: Order
metadata: {name: "{{ .Release.Name }}"}
spec: {items: {{ .Values.replicas }}}
`,
	"templates/web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec: {containers: [{name: web, image: "example.com/web:1"}]}
`,
	"templates/hook.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: "{{ .Release.Name }}-hook-{{ .Release.Revision }}"
  annotations: {"helm.sh/hook": "pre-install,pre-upgrade"}
data: {revision: "{{ .Release.Revision }}"}
`,
}

// TestHelm installs, upgrades, rolls back and uninstalls a chart with a
// definition, an object of it, and hooks.
func TestHelm(t *testing.T) {
	program, ns, dir := helm(t), space(t, "helm"), t.TempDir()
	for name, content := range chart {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", t.TempDir()) // its caches
	order := func() string {
		return kubectl(t, "", "get", "orders,deploy", "-n", ns, "-o", "jsonpath={.items[*].spec.items} {.items[*].spec.replicas}")
	}
	has(t, "install", run(t, dir, program, "install", "shop", ".", "-n", ns, "--wait", "--timeout=5m"), "STATUS: deployed", "REVISION: 1")
	has(t, "installed", order(), "1 1")
	run(t, dir, program, "upgrade", "shop", ".", "-n", ns, "--set", "replicas=3", "--wait", "--timeout=5m")
	has(t, "upgraded", order(), "3 3")
	has(t, "hooks", kubectl(t, "", "get", "cm", "-n", ns, "-o", "name"), "configmap/shop-hook-1", "configmap/shop-hook-2")
	run(t, dir, program, "rollback", "shop", "1", "-n", ns, "--wait", "--timeout=5m")
	has(t, "rolled back", order(), "1 1")
	has(t, "history", run(t, dir, program, "history", "shop", "-n", ns), "Rollback to 1", "superseded")
	run(t, dir, program, "uninstall", "shop", "-n", ns, "--wait", "--timeout=5m")
	eventually(t, func(context.Context) error { // pods go after their owners
		if left := kubectl(t, "", "get", "orders,deploy,pods", "-n", ns, "-o", "name"); left != "" {
			return fmt.Errorf("left after uninstall: %s", left)
		}
		return nil
	})
}
