package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestClaims: on a fresh cluster, what a chart of a database asks for is made:
// a claim without a word about classes gets a folder on the node of its pod,
// which keeps what is written there, and goes with the claim.
func TestClaims(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t)
	c.Shows([]string{"local-path (default)", "setpoint.dev/local-path", "Delete", "WaitForFirstConsumer"}, "get", "storageclass")
	t.Run("parts", func(t *testing.T) {
		for name, test := range map[string]func(*harness.Cluster, string){
			"database": testDatabase, "ephemeral": testEphemeral, "kept": testKept, "by hand": testByHand, "refused": testRefusedClaims,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(c.In(t), image)
			})
		}
	})
	c.Eventually(time.Minute, "nothing but what is retained is left in the folder of volumes", func() error {
		entries, err := os.ReadDir(filepath.Join(c.Dir, "volumes"))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), "_default_kept") {
				return fmt.Errorf("%s is there", e.Name())
			}
		}
		return nil
	})
}

// TestClaimsOnAgents: each machine keeps the folders of its own pods, and
// removes them, with the rights of a node.
func TestClaimsOnAgents(t *testing.T) {
	c, _, dir := twoNodes(t)
	for _, node := range []string{"first", "second"} {
		c.Apply("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: " + node + "}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}\n---\n" +
			onePod(node, "example.test/tool:1", "nodeSelector: {kubernetes.io/hostname: "+node+"}, volumes: [{name: v, persistentVolumeClaim: {claimName: "+node+"}}]", "volumeMounts: [{name: v, mountPath: /v}]"))
	}
	ready(c, "first", "second")
	var volumes []string
	for node, data := range map[string]string{"first": c.Dir, "second": dir} {
		sh(c, node, "echo "+node+" > /v/x")
		volume := claimOf(c, node).Spec.VolumeName
		volumes = append(volumes, "pv/"+volume)
		path := filepath.Join(data, "volumes", volume+"_default_"+node)
		if b, err := os.ReadFile(filepath.Join(path, "x")); err != nil || string(b) != node+"\n" {
			t.Errorf("on node %s the file is %q, %v", node, b, err)
		}
	}
	// A pod that goes anywhere goes where its claim is.
	c.Kubectl("delete", "pod", "second")
	c.Apply(onePod("again", "example.test/tool:1", "volumes: [{name: v, persistentVolumeClaim: {claimName: second}}]", "volumeMounts: [{name: v, mountPath: /v}]"))
	ready(c, "again")
	if got := sh(c, "again", "cat /v/x"); got != "second\n" || pod(c, "again").Spec.NodeName != "second" {
		t.Errorf("on node %s the data is %q", pod(c, "again").Spec.NodeName, got)
	}
	c.Kubectl("delete", "pod", "first", "again")
	c.Kubectl("delete", "pvc", "first", "second")
	absent(c, volumes...)
	for _, data := range []string{c.Dir, dir} {
		if entries, err := os.ReadDir(filepath.Join(data, "volumes")); err != nil || len(entries) != 0 {
			t.Errorf("in %s there is %v, %v", data, entries, err)
		}
	}
}

// TestManyClaims: a hundred claims at once are made, bound and deleted, also
// those of a node that is gone; no loop is left waiting, and the class that
// somebody deleted stays away.
func TestManyClaims(t *testing.T) {
	t.Parallel()
	c := harness.Start(t, "--nodes", "sim=3")
	c.Apply(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: many}
spec:
  serviceName: many
  replicas: 100
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec: {containers: [{name: a, image: "sim:1", volumeMounts: [{name: data, mountPath: /data}]}]}
  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete, whenDeleted: Delete}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	c.Kubectl("rollout", "status", "statefulset/many", "--timeout=600s")
	count := func(resource string) int {
		return len(strings.Fields(c.Kubectl("get", resource, "-o", "name")))
	}
	noGaps := func(what string, but ...string) {
		t.Helper()
		c.Eventually(time.Minute, what, func() error {
			out := c.Setpoint("status")
			_, table, open := strings.Cut(out, "WAITS FOR")
			for line := range strings.Lines(strings.TrimSpace(table)) {
				if f := strings.Fields(line); len(f) > 3 && !slices.Contains(but, f[1]) {
					return fmt.Errorf("it says:\n%s", out)
				}
			}
			if !open && !strings.Contains(out, "none: every loop has closed what it saw") {
				return fmt.Errorf("it says:\n%s", out)
			}
			return nil
		})
	}
	if claims, volumes := count("pvc"), count("pv"); claims != 100 || volumes != 100 {
		t.Errorf("%d claims and %d volumes", claims, volumes)
	}
	noGaps("all is made, and nobody waits")
	c.Kubectl("scale", "statefulset", "many", "--replicas=60")
	c.Eventually(time.Minute, "40 claims go with their pods, and their volumes with them", func() error {
		if claims, volumes := count("pvc"), count("pv"); claims != 60 || volumes != 60 {
			return fmt.Errorf("%d claims and %d volumes", claims, volumes)
		}
		return nil
	})
	c.Kubectl("delete", "node", "sim-2")
	c.Kubectl("delete", "statefulset", "many")
	c.Kubectl("delete", "pods", "--all", "--force") // nobody else ends those of a node that is gone at once
	c.Eventually(time.Minute, "all go, also those of the node that is gone", func() error {
		if claims, volumes := count("pvc"), count("pv"); claims+volumes != 0 {
			return fmt.Errorf("%d claims and %d volumes", claims, volumes)
		}
		return nil
	})
	noGaps("all is gone, and nobody waits but for the node", "/sim-2")
	c.Kubectl("delete", "storageclass", "local-path")
	c.Kill()
	c.Up()
	if out := c.Kubectl("get", "storageclass", "-o", "name"); out != "" {
		t.Errorf("the class that was deleted is back: %s", out)
	}
}

func claimOf(c *harness.Cluster, name string) corev1.PersistentVolumeClaim {
	c.T.Helper()
	var claim corev1.PersistentVolumeClaim
	decode(c, &claim, "get", "pvc", name, "-o", "json")
	return claim
}

// folder is where the data of a bound claim lies.
func folder(c *harness.Cluster, claim string) (volume, path string) {
	c.T.Helper()
	volume = claimOf(c, claim).Spec.VolumeName
	var v corev1.PersistentVolume
	decode(c, &v, "get", "pv", volume, "-o", "json")
	if v.Spec.Local == nil || filepath.Dir(v.Spec.Local.Path) != filepath.Join(c.Dir, "volumes") {
		c.T.Fatalf("volume %s is %+v", volume, v.Spec.PersistentVolumeSource)
	}
	return volume, v.Spec.Local.Path
}

// absent waits until objects are gone.
func absent(c *harness.Cluster, objects ...string) {
	c.T.Helper()
	c.Await("delete", objects...)
}

func testDatabase(c *harness.Cluster, image string) {
	c.Apply(`
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      securityContext: {runAsUser: 1000, fsGroup: 2000}
      containers:
      - name: a
        image: ` + image + `
        volumeMounts:
        - {name: data, mountPath: /data}
        - {name: data, mountPath: /part, subPath: part}
        - {name: data, mountPath: /read, readOnly: true}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	c.Kubectl("rollout", "status", "statefulset/db", "--timeout=600s")
	for _, n := range []string{"0", "1"} {
		got := sh(c, "db-"+n, "echo "+n+" > /data/who; echo part > /part/x; cat /data/part/x; stat -c '%a %g' /data/part; stat -c '%u %g' /data/who; touch /read/x 2>&1; true")
		contains(c.T, "what the pod may do", got, "part\n", "2777 2000\n", "1000 2000\n", "Read-only file system")
	}
	volume, path := folder(c, "data-db-0")
	if b, err := os.ReadFile(filepath.Join(path, "who")); err != nil || string(b) != "0\n" {
		c.T.Errorf("on the node the file is %q, %v", b, err)
	}
	contains(c.T, "the claim", c.Kubectl("get", "pvc", "data-db-0"), "Bound", volume, "1Gi", "RWO", "local-path")
	c.Shows([]string{"ProvisioningSucceeded", "ExternalProvisioning"}, "describe", "pvc", "data-db-0")

	uid := pod(c, "db-0").UID
	c.Kubectl("delete", "pod", "db-0")
	c.Eventually(time.Minute, "the pod comes again", func() error {
		out, err := c.Try("get", "pod", "db-0", "-o", "jsonpath={.metadata.uid} {.status.phase}")
		if err != nil || strings.HasPrefix(out, string(uid)) || !strings.HasSuffix(out, "Running") {
			return fmt.Errorf("%s, %v", out, err)
		}
		return nil
	})
	if got := sh(c, "db-0", "cat /data/who"); got != "0\n" {
		c.T.Errorf("the data is %q", got)
	}

	c.Kubectl("patch", "pvc", "data-db-0", "-p", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	c.Await("jsonpath={.status.capacity.storage}=2Gi", "pvc/data-db-0")

	// A claim that is used stays until it is not.
	c.Kubectl("delete", "pvc", "data-db-0", "--wait=false")
	contains(c.T, "a claim in use", c.Kubectl("get", "pvc", "data-db-0"), "Terminating")
	if got := sh(c, "db-0", "cat /data/who"); got != "0\n" {
		c.T.Errorf("the data is %q", got)
	}
	c.Kubectl("delete", "statefulset", "db")
	c.Kubectl("delete", "pvc", "data-db-1")
	absent(c, "pvc/data-db-0", "pv/"+volume)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		c.T.Errorf("the folder of a claim that is gone is there: %v", err)
	}
}

func testEphemeral(c *harness.Cluster, image string) {
	c.Apply(onePod("scratch", image, "volumes: [{name: tmp, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}}}]",
		"volumeMounts: [{name: tmp, mountPath: /tmp}]"))
	ready(c, "scratch")
	sh(c, "scratch", "echo x > /tmp/x")
	volume, path := folder(c, "scratch-tmp")
	c.Kubectl("delete", "pod", "scratch")
	absent(c, "pvc/scratch-tmp", "pv/"+volume)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		c.T.Errorf("the folder of a pod's own volume is there: %v", err)
	}
}

// testKept: with the policy Retain the data outlives claim and volume.
func testKept(c *harness.Cluster, image string) {
	c.Apply(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: kept}
provisioner: setpoint.dev/local-path
reclaimPolicy: Retain
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept}
spec: {storageClassName: kept, accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Mi}}}
---
` + onePod("keeps", image, "volumes: [{name: v, persistentVolumeClaim: {claimName: kept}}]", "volumeMounts: [{name: v, mountPath: /v}]"))
	ready(c, "keeps")
	sh(c, "keeps", "echo kept > /v/x")
	volume, path := folder(c, "kept")
	c.Kubectl("delete", "pod", "keeps")
	c.Kubectl("delete", "pvc", "kept")
	c.Await("jsonpath={.status.phase}=Released", "pv/"+volume)
	c.Kubectl("delete", "pv", volume)
	if b, err := os.ReadFile(filepath.Join(path, "x")); err != nil || string(b) != "kept\n" {
		c.T.Errorf("the data is %q, %v", b, err)
	}
}

// testByHand: a volume that a person made for a claim, and a claim of no class.
func testByHand(c *harness.Cluster, image string) {
	dir, err := os.MkdirTemp("", "sp-host-")
	if err != nil {
		c.T.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("by hand\n"), 0o644); err != nil {
		c.T.Fatal(err)
	}
	c.Apply(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: by-hand}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  claimRef: {namespace: default, name: by-hand}
  hostPath: {path: ` + dir + `}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: by-hand}
spec: {storageClassName: "", accessModes: [ReadWriteMany], resources: {requests: {storage: 1Mi}}}
---
` + onePod("by-hand", image, "volumes: [{name: v, persistentVolumeClaim: {claimName: by-hand, readOnly: true}}]", "volumeMounts: [{name: v, mountPath: /v}]"))
	ready(c, "by-hand")
	contains(c.T, "the volume", sh(c, "by-hand", "cat /v/x; touch /v/y 2>&1; true"), "by hand\n", "Read-only file system")
	c.Kubectl("delete", "pod", "by-hand")
	c.Kubectl("delete", "pvc", "by-hand")
	c.Await("jsonpath={.status.phase}=Released", "pv/by-hand")
	c.Kubectl("delete", "pv", "by-hand")
	if _, err := os.Stat(filepath.Join(dir, "x")); err != nil {
		c.T.Errorf("the host's own file went with the volume: %v", err)
	}
}

// testRefusedClaims: what cannot be says why.
func testRefusedClaims(c *harness.Cluster, image string) {
	c.Apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: lost-class}
spec: {storageClassName: nowhere, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
` + onePod("shared", image, "volumes: [{name: v, persistentVolumeClaim: {claimName: shared}}]", "volumeMounts: [{name: v, mountPath: /v}]"))
	c.Eventually(time.Minute, "claims say why they pend", func() error {
		for claim, want := range map[string]string{
			"shared":     "a volume on one node has the access modes ReadWriteOnce and ReadWriteOncePod, not [ReadWriteMany]",
			"lost-class": `storageclass.storage.k8s.io "nowhere" not found`,
		} {
			if out := c.Kubectl("describe", "pvc", claim); !strings.Contains(out, want) || !strings.Contains(out, "ProvisioningFailed") {
				return fmt.Errorf("claim %s says:\n%s", claim, out)
			}
		}
		return nil
	})
	c.Tells([]string{"default/shared"}, "status")
	out := fails(c, "", "patch", "pvc", "lost-class", "-p", `{"spec":{"resources":{"requests":{"storage":"2Mi"}}}}`)
	contains(c.T, "a claim that is not bound", out, "is invalid", "spec is immutable")
	c.Kubectl("delete", "pod", "shared")
	c.Kubectl("delete", "pvc", "shared", "lost-class")
}
