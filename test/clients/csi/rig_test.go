package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
	"github.com/setpoint-project/setpoint/test/freeport"
)

const (
	name  = "disk.example.com"
	image = "example.test/driver:1"
)

// rig is a cluster of two nodes with the driver on both, and the sidecars.
type rig struct {
	*harness.Cluster
	disks string // the folder of disks, see the driver's
}

func (r rig) in(t *testing.T) rig { return rig{r.In(t), r.disks} }

func start(t *testing.T) rig {
	t.Helper()
	bin := os.Getenv(sidecars)
	if bin == "" {
		t.Skip("the sidecars could not be built: the module proxy does not give them")
	}
	disks, err := os.MkdirTemp("", "disks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(disks) })
	machine := harness.StartMachine(t)
	c := harness.Start(t, "--listen", fmt.Sprintf("%s:%d", harness.HereIP, freeport.Port(t)), "--node-ip", harness.HereIP, "--node-name", "first")
	second, err := os.MkdirTemp("", "sp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		machine.Run(harness.Binary(t), "--data-dir", second, "down", "--purge")
		os.RemoveAll(second)
	})
	token, err := os.ReadFile(filepath.Join(c.Dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	server := c.Kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	machine.Start("--data-dir", second, "agent", "--server", server, "--token", strings.TrimSpace(string(token)), "--node-ip", harness.ThereIP, "--node-name", "second")
	archive := harness.Archive(t, image, harness.CSIDriver(t))
	c.Await("condition=Ready", "node/first", "node/second")
	c.Setpoint("image", "import", archive)
	machine.Run(harness.Binary(t), "--data-dir", second, "image", "import", archive)
	r := rig{c, disks}
	for _, manifest := range []string{
		file(t, "attacher/v4", "deploy/kubernetes/rbac.yaml"), file(t, "provisioner/v6", "deploy/kubernetes/rbac.yaml"), file(t, "resizer/v2", "deploy/kubernetes/rbac.yaml"),
		file(t, "snapshotter/v8", "deploy/kubernetes/csi-snapshotter/rbac-csi-snapshotter.yaml"), file(t, "snapshotter/v8", "deploy/kubernetes/snapshot-controller/rbac-snapshot-controller.yaml"),
	} {
		c.Kubectl("apply", "-f", manifest)
	}
	// What the provisioner's own manifest of this version leaves out.
	c.Apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: attributes}
rules: [{apiGroups: [storage.k8s.io], resources: [volumeattributesclasses], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: attributes}
subjects: [{kind: ServiceAccount, name: csi-provisioner, namespace: default}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: attributes}
`)
	c.Kubectl("apply", "-k", file(t, "snapshotter/client/v8", "config/crd"))
	c.Apply(driverManifest(disks))
	c.Apply(sidecar(bin, "kube-system", "snapshot-controller", "--v=4") + sidecar(bin, "default", "csi-attacher", "--v=4", "--csi-address=/csi/csi.sock") +
		sidecar(bin, "default", "csi-resizer", "--v=4", "--csi-address=/csi/csi.sock") + sidecar(bin, "default", "csi-snapshotter", "--v=4", "--csi-address=/csi/csi.sock") +
		sidecar(bin, "default", "csi-provisioner", "--v=4", "--csi-address=/csi/csi.sock", "--enable-capacity", "--capacity-ownerref-level=2", "--immediate-topology=false", "--extra-create-metadata", "--capacity-poll-interval=5s"))
	t.Cleanup(func() {
		if t.Failed() {
			for _, of := range []string{"daemonset/driver", "deployment/csi-provisioner", "deployment/csi-attacher", "deployment/csi-resizer", "deployment/csi-snapshotter"} {
				out, _ := c.Try("logs", of, "--tail=60", "--all-pods", "--prefix=false")
				t.Logf("%s:\n%s", of, out)
			}
			out, _ := c.Try("get", "pods,pvc,pv,volumeattachments,csinodes,csistoragecapacities,events", "-A", "-o", "wide")
			t.Logf("the cluster:\n%s", out)
		}
	})
	return r
}

// driverManifest is what a driver installs, but for its sidecars.
func driverManifest(disks string) string {
	return `
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: ` + name + `}
spec: {attachRequired: true, podInfoOnMount: true, storageCapacity: true, volumeLifecycleModes: [Persistent, Ephemeral], fsGroupPolicy: File}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: driver}
spec:
  selector: {matchLabels: {app: driver}}
  template:
    metadata: {labels: {app: driver}}
    spec:
      terminationGracePeriodSeconds: 5
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: without-driver, operator: DoesNotExist}]}]}}}
      containers:
      - name: driver
        image: ` + image + `
        command: [/bin/driver, ` + name + `, $(NODE), /disks]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        securityContext: {privileged: true}
        volumeMounts:
        - {name: socket, mountPath: /csi}
        - {name: registration, mountPath: /registration}
        - {name: disks, mountPath: /disks}
        - {name: pods, mountPath: /var/lib/kubelet/pods, mountPropagation: Bidirectional}
        - {name: plugins, mountPath: /var/lib/kubelet/plugins, mountPropagation: Bidirectional}
      volumes:
      - {name: disks, hostPath: {path: ` + disks + `, type: Directory}}
      - {name: socket, hostPath: {path: /var/lib/kubelet/plugins/` + name + `, type: DirectoryOrCreate}}
      - {name: registration, hostPath: {path: /var/lib/kubelet/plugins_registry, type: Directory}}
      - {name: pods, hostPath: {path: /var/lib/kubelet/pods, type: Directory}}
      - {name: plugins, hostPath: {path: /var/lib/kubelet/plugins, type: DirectoryOrCreate}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: now}
provisioner: ` + name + `
allowVolumeExpansion: true
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: ` + name + `
allowVolumeExpansion: true
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: second-only}
provisioner: ` + name + `
parameters: {node: second}
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: silver}
driverName: ` + name + `
parameters: {speed: "1"}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: ` + name + `
parameters: {speed: "2"}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: snaps}
driver: ` + name + `
deletionPolicy: Delete
`
}

// sidecar is the Deployment of a sidecar, beside the driver of the first node.
// Its program is mounted: an image of it would show nothing more.
func sidecar(bin, namespace, program string, args ...string) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      serviceAccountName: %[1]s
      nodeSelector: {kubernetes.io/hostname: first}
      containers:
      - name: %[1]s
        image: %[3]s
        command: [/sidecars/%[1]s, %[4]s]
        env: [{name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}, {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        volumeMounts: [{name: socket, mountPath: /csi}, {name: sidecars, mountPath: /sidecars, readOnly: true}]
      volumes:
      - {name: sidecars, hostPath: {path: %[5]s, type: Directory}}
      - {name: socket, hostPath: {path: /var/lib/kubelet/plugins/%[6]s, type: DirectoryOrCreate}}
`, program, namespace, image, strings.Join(args, ", "), bin, name)
}

// claim is a claim of a class; more goes into its spec.
func claim(name, class, more string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: %s}\nspec: {storageClassName: %s, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}%s}\n", name, class, more)
}

// pod is a pod with one volume, at /v or, when it is a device, at /dev/v.
func pod(name, node, volume string, device bool) string {
	where := "volumeMounts: [{name: v, mountPath: /v}]"
	if device {
		where = "volumeDevices: [{name: v, devicePath: /dev/v}]"
	}
	if node != "" {
		node = "nodeSelector: {kubernetes.io/hostname: " + node + "}, "
	}
	return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {terminationGracePeriodSeconds: 0, %svolumes: [{name: v, %s}], containers: [{name: a, image: %q, %s}]}\n", name, node, volume, image, where)
}

func of(claim string) string { return "persistentVolumeClaim: {claimName: " + claim + "}" }

func (r rig) ready(names ...string) {
	r.T.Helper()
	for _, n := range names {
		r.Await("condition=Ready", "pod/"+n)
	}
}

func (r rig) sh(pod, script string) string {
	r.T.Helper()
	return r.Kubectl("exec", pod, "-c", "a", "--", "sh", "-c", script)
}

// gone waits until objects are there no more.
func (r rig) gone(objects ...string) {
	r.T.Helper()
	for _, o := range objects {
		r.Eventually(time.Minute, o+" is gone", func() error {
			if out, err := r.Try("get", o, "--ignore-not-found", "-o", "name"); err != nil || out != "" {
				return fmt.Errorf("there is %s, %v", out, err)
			}
			return nil
		})
	}
}

func (r rig) get(object, path string) string {
	r.T.Helper()
	return r.Kubectl("get", object, "-o", "jsonpath="+path)
}

// until waits until what a path of an object shows is as wanted.
func (r rig) until(object, path, want string) {
	r.T.Helper()
	r.Eventually(time.Minute, object+" "+path, func() error {
		if out, err := r.Try("get", object, "-o", "jsonpath="+path); err != nil || out != want {
			return fmt.Errorf("got %q, want %q, %v", out, want, err)
		}
		return nil
	})
}

// read is a file of the driver's; "" when there is none.
func (r rig) read(file string) string {
	b, err := os.ReadFile(filepath.Join(r.disks, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.T.Fatal(err)
	}
	return string(b)
}

// calls are those that were made for a volume so far, "first stage" say.
func (r rig) calls(volume string) (calls []string) {
	for line := range strings.Lines(r.read("calls")) {
		if before, rest, ok := strings.Cut(strings.TrimSpace(line), " "+volume); ok {
			calls = append(calls, before+rest)
		}
	}
	return calls
}

// called waits until these calls were the last that were made for a volume.
func (r rig) called(volume string, want ...string) {
	r.T.Helper()
	r.Eventually(time.Minute, "calls for "+volume, func() error {
		got := r.calls(volume)
		if !slices.Equal(got[max(0, len(got)-len(want)):], want) {
			return fmt.Errorf("got %q, want the last to be %q", got, want)
		}
		return nil
	})
}
