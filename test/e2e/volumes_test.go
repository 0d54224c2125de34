package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// testVolumes: every volume a pod can have without storage behind it, and that
// what follows an object does follow it.
func testVolumes(c *harness.Cluster, image string) {
	host, err := os.MkdirTemp("", "sp-host-")
	if err != nil {
		c.T.Fatal(err)
	}
	defer os.RemoveAll(host)
	if err := os.WriteFile(filepath.Join(host, "from-host"), []byte("host"), 0o644); err != nil {
		c.T.Fatal(err)
	}
	c.Apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: vol}
data: {a: one, b: two}
binaryData: {raw: AAEC}
---
apiVersion: v1
kind: Secret
metadata: {name: vol}
stringData: {password: s3cret}
---
apiVersion: v1
kind: Pod
metadata: {name: volumes, labels: {app: volumes}, annotations: {note: "a \"b\""}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: a
    image: ` + image + `
    resources: {limits: {cpu: 500m, memory: 64Mi}}
    volumeMounts:
    - {name: empty, mountPath: /empty}
    - {name: memory, mountPath: /memory}
    - {name: host, mountPath: /host}
    - {name: config, mountPath: /config}
    - {name: config, mountPath: /one-file, subPath: a}
    - {name: secret, mountPath: /secret, readOnly: true}
    - {name: projected, mountPath: /projected}
    - {name: downward, mountPath: /downward}
    - {name: empty, mountPath: /expanded, subPathExpr: $(POD)}
    env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
  - name: b
    image: ` + image + `
    command: [sleep, "1000000"]
    volumeMounts: [{name: empty, mountPath: /empty, readOnly: true}]
  volumes:
  - {name: empty, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: host, hostPath: {path: ` + host + `, type: Directory}}
  - {name: config, configMap: {name: vol}}
  - {name: secret, secret: {secretName: vol, defaultMode: 0400}}
  - name: projected
    projected:
      sources:
      - configMap: {name: vol, items: [{key: b, path: deep/b}]}
      - secret: {name: vol}
      - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
      - serviceAccountToken: {path: token, audience: other, expirationSeconds: 600}
  - name: downward
    downwardAPI:
      items:
      - {path: labels, fieldRef: {fieldPath: metadata.labels}}
      - {path: annotations, fieldRef: {fieldPath: metadata.annotations}}
      - {path: cpu, resourceFieldRef: {containerName: a, resource: limits.cpu, divisor: 1m}}
`)
	ready(c, "volumes")
	got := sh(c, "volumes", `
echo empty > /empty/file; mkdir -p /expanded; echo x > /expanded/x; ls /empty/volumes
echo pod > /host/from-pod; echo host: $(cat /host/from-host)
echo memory: $(grep ' /memory ' /proc/mounts)
echo secret: $(cat /secret/password) $(stat -L -c %a /secret/password) $(grep ' /secret ' /proc/mounts | cut -d' ' -f1,4)
echo config: $(cat /config/a) $(cat /config/b) $(cat /one-file) $(wc -c < /config/raw) $(stat -L -c %a /config/a)
echo projected: $(cat /projected/deep/b) $(cat /projected/password) $(cat /projected/name) $(cut -d. -f2 /projected/token | cut -c1-3)
echo downward: $(cat /downward/labels) $(cat /downward/annotations) $(cat /downward/cpu)
touch /secret/x 2>&1; true`)
	contains(c.T, "volumes", got, "x\n", "host: host", "memory: tmpfs /memory tmpfs rw", "size=1024k", "secret: s3cret 400 tmpfs ro",
		"config: one two one 3 644", "projected: two s3cret volumes eyJ", `app="volumes"`, `note="a \"b\""`, " 500\n", "Read-only file system")
	if b, err := os.ReadFile(filepath.Join(host, "from-pod")); err != nil || string(b) != "pod\n" {
		c.T.Errorf("a hostPath volume brought %q to the host, %v", b, err)
	}
	out := c.Kubectl("exec", "volumes", "-c", "b", "--", "sh", "-c", "cat /empty/file; touch /empty/x 2>&1; true")
	contains(c.T, "an emptyDir shared read-only", out, "empty\n", "Read-only file system")

	c.Kubectl("patch", "configmap", "vol", "-p", `{"data":{"a":"changed","b":null}}`)
	c.Kubectl("label", "pod", "volumes", "color=blue")
	c.Eventually(2*time.Minute, "volumes follow their objects", func() error {
		now := sh(c, "volumes", "cat /config/a /downward/labels; ls /config; echo; cat /one-file")
		for _, want := range []string{"changed", `color="blue"`} {
			if !strings.Contains(now, want) {
				return fmt.Errorf("no %s in:\n%s", want, now)
			}
		}
		// A subPath stays what it was, as upstream; a key that is gone is gone.
		if !strings.HasSuffix(now, "\none") || strings.Contains(now, "\nb\n") {
			return fmt.Errorf("got:\n%s", now)
		}
		return nil
	})
	dir := filepath.Join(c.Dir, "kubelet", "pods", string(pod(c, "volumes").UID))
	c.Kubectl("delete", "pod", "volumes")
	c.Eventually(time.Minute, "nothing is left of a pod that is gone", func() error {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			return fmt.Errorf("%s is there: %v", dir, err)
		}
		return nil
	})
	if _, err := os.Stat(filepath.Join(host, "from-host")); err != nil {
		c.T.Errorf("the host's own file went with the pod: %v", err)
	}
}

// testServiceAccount: a pod talks to the API server as its service account, by
// the cluster IP and with the authority's certificate that it is given.
func testServiceAccount(c *harness.Cluster, image string) {
	c.Apply(onePod("account", image, `hostAliases: [{ip: `+clusterIP(c, "kubernetes")+`, hostnames: [kubernetes.default.svc]}]`, "") +
		onePod("no-account", image, "automountServiceAccountToken: false", ""))
	ready(c, "account", "no-account")
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount"
	const ask = "tool get -ca " + dir + "/ca.crt "
	const refusal = `pods is forbidden: User \"%s\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"`
	out := sh(c, "account", "cat "+dir+"/namespace; echo; "+ask+"-token "+dir+"/token https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/default/pods")
	contains(c.T, "with the token", out, "default\n", "403", fmt.Sprintf(refusal, "system:serviceaccount:default:default"))
	contains(c.T, "without a token", sh(c, "account", ask+"https://$KUBERNETES_SERVICE_HOST/api/v1/namespaces/default/pods"),
		"403", fmt.Sprintf(refusal, "system:anonymous"))
	contains(c.T, "by name", sh(c, "account", ask+"https://kubernetes.default.svc/version"), "200", "v1.37")
	if out := sh(c, "no-account", "ls "+dir+" 2>&1; true"); !strings.Contains(out, "No such file") {
		c.T.Errorf("a pod that wants no token has one:\n%s", out)
	}
}
