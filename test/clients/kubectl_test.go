package clients

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example.com/web:1"}]}
`

func configMap(name, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, labels: {set: one}}\ndata: {v: %q}\n", name, value)
}

func TestKubectlApply(t *testing.T) {
	ns := space(t, "kubectl-apply")
	has(t, "apply", kubectl(t, configMap("a", "1")+configMap("b", "1"), "apply", "-n", ns, "-f", "-"), "configmap/a created", "configmap/b created")
	out, err := tryKubectl(t, configMap("a", "2"), "diff", "-n", ns, "-f", "-")
	if err == nil {
		t.Error("diff found no difference")
	}
	has(t, "diff", out, "-  v: \"1\"", "+  v: \"2\"")
	has(t, "prune", kubectl(t, configMap("a", "2"), "apply", "-n", ns, "--prune", "-l", "set=one", "--prune-allowlist=core/v1/ConfigMap", "-f", "-"),
		"configmap/a configured", "configmap/b pruned")
	has(t, "server side", kubectl(t, configMap("a", "3"), "apply", "-n", ns, "--server-side", "--force-conflicts", "-f", "-"), "configmap/a serverside-applied")
	out, err = tryKubectl(t, configMap("a", "4"), "apply", "-n", ns, "--server-side", "--field-manager=other", "-f", "-")
	if err == nil {
		t.Error("another manager met no conflict")
	}
	has(t, "conflict", out, "conflict with \"kubectl\"", ".data.v")
	has(t, "managers", kubectl(t, "", "get", "cm", "a", "-n", ns, "--show-managed-fields", "-o", "yaml"), "f:v: {}", "operation: Apply")
	cmd := command(t, "", kubectlPath, "edit", "cm", "a", "-n", ns)
	cmd.Env = append(os.Environ(), `KUBE_EDITOR=sed -i s/v:.*/v:\ edited/`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("edit: %v\n%s", err, out)
	}
	has(t, "edited", kubectl(t, "", "get", "cm", "a", "-n", ns, "-o", "jsonpath={.data}"), `"v":"edited"`)
	has(t, "unknown field", func() string {
		out, _ := tryKubectl(t, strings.Replace(web, "replicas", "replcas", 1), "apply", "-n", ns, "-f", "-")
		return out
	}(), `unknown field "spec.replcas"`)
}

func TestKubectlKustomize(t *testing.T) {
	ns := space(t, "kubectl-kustomize")
	dir := t.TempDir()
	for name, content := range map[string]string{
		"web.yaml": web,
		"kustomization.yaml": "namespace: " + ns + `
namePrefix: my-
resources: [web.yaml]
labels: [{pairs: {team: blue}, includeSelectors: true}]
configMapGenerator: [{name: settings, literals: [a=1]}]
patches: [{patch: '[{"op": "replace", "path": "/spec/replicas", "value": 3}]', target: {kind: Deployment}}]
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has(t, "apply -k", kubectl(t, "", "apply", "-k", dir), "deployment.apps/my-web created", "configmap/my-settings-")
	has(t, "rollout", kubectl(t, "", "rollout", "status", "-n", ns, "deploy/my-web", "--timeout=5m"), "successfully rolled out")
	has(t, "applied", kubectl(t, "", "get", "deploy", "my-web", "-n", ns, "-o", "jsonpath={.spec.replicas} {.spec.selector.matchLabels.team}"), "3 blue")
	kubectl(t, "", "delete", "-k", dir)
}

func TestKubectlAsks(t *testing.T) {
	ns := space(t, "kubectl-asks")
	kubectl(t, web, "apply", "-n", ns, "-f", "-")
	has(t, "wait", kubectl(t, "", "wait", "-n", ns, "--for=condition=Available", "deploy/web", "--timeout=5m"), "condition met")
	has(t, "wait", kubectl(t, "", "wait", "-n", ns, "--for=jsonpath={.status.readyReplicas}=2", "deploy/web", "--timeout=5m"), "condition met")
	has(t, "explain", kubectl(t, "", "explain", "deployment.spec", "--recursive"), "replicas", "maxSurge", "<IntOrString>")
	has(t, "api-resources", kubectl(t, "", "api-resources", "--sort-by=name"), "deploy ", "apps/v1")
	has(t, "can-i", kubectl(t, "", "auth", "can-i", "delete", "nodes"), "yes")
	out, _ := tryKubectl(t, "", "auth", "can-i", "delete", "nodes", "--as", "nobody")
	has(t, "can-i", out, "no")
	has(t, "whoami", kubectl(t, "", "auth", "whoami"), "kubernetes-admin")
	kubectl(t, "", "create", "serviceaccount", "robot", "-n", ns)
	token := strings.TrimSpace(kubectl(t, "", "create", "token", "robot", "-n", ns))
	out, _ = tryKubectl(t, "", "auth", "whoami", "--token", token, "--kubeconfig", withoutUser(t))
	has(t, "token", out, "system:serviceaccount:"+ns+":robot")
	has(t, "scale", kubectl(t, "", "scale", "-n", ns, "deploy/web", "--replicas=3"), "scaled")
	has(t, "describe", kubectl(t, "", "describe", "-n", ns, "deploy/web"), "ScalingReplicaSet", "example.com/web:1")
}

// withoutUser is the kubeconfig without the administrator's certificate.
func withoutUser(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	cluster := kubectl(t, "", "config", "view", "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster.server} {.clusters[0].cluster.certificate-authority-data}")
	server, ca, _ := strings.Cut(cluster, " ")
	content := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %q}}]\nusers: [{name: u, user: {}}]\n", server, ca)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKubectlWatch: `get --watch` shows each change as it comes.
func TestKubectlWatch(t *testing.T) {
	ns := space(t, "kubectl-watch")
	kubectl(t, configMap("a", "1"), "apply", "-n", ns, "-f", "-")
	cmd := command(t, "", kubectlPath, "get", "cm", "a", "-n", ns, "--watch", "-o", "jsonpath={.data.v}{\"\\n\"}")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	lines := bufio.NewScanner(out)
	for i, want := range []string{"1", "2", "3"} {
		if i > 0 {
			kubectl(t, configMap("a", want), "apply", "-n", ns, "-f", "-")
		}
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("saw %q, want %q (%v)", lines.Text(), want, lines.Err())
		}
	}
}

// TestKubectlProxy: what is behind it is the API.
func TestKubectlProxy(t *testing.T) {
	cmd := command(t, "", kubectlPath, "proxy", "--port=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, at, ok := strings.Cut(strings.TrimSpace(line), "Starting to serve on ")
	if !ok {
		t.Fatalf("it says %q", line)
	}
	res, err := http.Get("http://" + at + "/api/v1/namespaces/default")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("%d, %v: %s", res.StatusCode, err, body)
	}
	has(t, "proxy", string(body), `"kind":"Namespace"`)
}
