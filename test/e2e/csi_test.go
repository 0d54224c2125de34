package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

const disks = "disk.example.com"

// TestStorageDriver: a CSI driver in a DaemonSet that is written for any cluster
// is registered, and its volumes are attached, staged with its secrets, mounted,
// enlarged and taken back, with the rights that a node has; containers keep them
// while Setpoint is down.
func TestStorageDriver(t *testing.T) {
	registry := harness.StartRegistry(t)
	image, driver := registry.Push("tool:1", harness.Tool(t)), registry.Push("driver:1", harness.StorageDriver(t))
	c := harness.Start(t)
	c.Apply(`
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: ` + disks + `}
spec: {podInfoOnMount: true, volumeLifecycleModes: [Persistent, Ephemeral], fsGroupPolicy: File}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: driver, namespace: kube-system}
spec:
  selector: {matchLabels: {app: driver}}
  template:
    metadata: {labels: {app: driver}}
    spec:
      containers:
      - name: driver
        image: ` + driver + `
        args: [` + disks + `, $(NODE)]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        securityContext: {privileged: true}
        volumeMounts:
        - {name: socket, mountPath: /csi}
        - {name: registration, mountPath: /registration}
        - {name: pods, mountPath: /var/lib/kubelet/pods, mountPropagation: Bidirectional}
        - {name: plugins, mountPath: /var/lib/kubelet/plugins, mountPropagation: Bidirectional}
      volumes:
      - {name: socket, hostPath: {path: /var/lib/kubelet/plugins/` + disks + `, type: DirectoryOrCreate}}
      - {name: registration, hostPath: {path: /var/lib/kubelet/plugins_registry, type: Directory}}
      - {name: pods, hostPath: {path: /var/lib/kubelet/pods, type: Directory}}
      - {name: plugins, hostPath: {path: /var/lib/kubelet/plugins, type: DirectoryOrCreate}}
---
apiVersion: v1
kind: Secret
metadata: {name: stage, namespace: kube-system}
stringData: {key: value}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: disks
  claimRef: {namespace: default, name: disk}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: ` + disks + `/node, operator: Exists}]}]}}
  csi: {driver: ` + disks + `, volumeHandle: h1, nodeStageSecretRef: {namespace: kube-system, name: stage}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disks}
provisioner: ` + disks + `
allowVolumeExpansion: true
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {storageClassName: disks, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
` + onePod("user", image, "securityContext: {fsGroup: 2000}, volumes: [{name: v, persistentVolumeClaim: {claimName: disk}}, {name: own, csi: {driver: "+disks+"}}]",
		"volumeMounts: [{name: v, mountPath: /v}, {name: v, mountPath: /part, subPath: part}, {name: own, mountPath: /own}]"))
	c.Eventually(time.Minute, "the driver is registered", func() error {
		out, err := c.Try("get", "csinodes", "-o", "jsonpath={.items[*].spec.drivers[*].name} {.items[*].spec.drivers[*].allocatable.count} {.items[*].spec.drivers[*].topologyKeys}")
		if err != nil || out != disks+` 5 ["`+disks+`/node"]` {
			return fmt.Errorf("it is not: %s, %v", out, err)
		}
		return nil
	})
	attachAll(c)
	ready(c, "user")
	if got := sh(c, "user", "echo kept > /v/x; echo part > /part/x; echo mine > /own/x; stat -c %g /v/x; cat /v/part/x /own/x"); got != "2000\npart\nmine\n" {
		t.Errorf("the pod sees %q", got)
	}
	node := only(c)
	if len(node.Status.VolumesAttached) != 1 || len(node.Status.VolumesInUse) != 1 || node.Status.VolumesInUse[0] != "kubernetes.io/csi/"+disks+"^h1" {
		t.Errorf("the node says %v, %v", node.Status.VolumesAttached, node.Status.VolumesInUse)
	}
	c.Shows([]string{"SuccessfulAttachVolume"}, "describe", "pod", "user")

	container := pod(c, "user").Status.ContainerStatuses[0].ContainerID
	c.Kill()
	c.Up()
	if got := sh(c, "user", "cat /v/x"); got != "kept\n" || pod(c, "user").Status.ContainerStatuses[0].ContainerID != container {
		t.Errorf("after Setpoint was killed the pod sees %q", got)
	}
	c.Kubectl("patch", "pvc", "disk", "-p", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	c.Kubectl("patch", "pv", "disk", "-p", `{"spec":{"capacity":{"storage":"2Gi"}}}`) // what a resizer does
	c.Kubectl("patch", "pvc", "disk", "--subresource=status", "--type=merge", "-p", `{"status":{"allocatedResourceStatuses":{"storage":"NodeResizePending"}}}`)
	c.Await("jsonpath={.status.capacity.storage}=2Gi", "pvc/disk")

	c.Kubectl("delete", "pod", "user")
	c.Eventually(time.Minute, "the volume is detached", func() error {
		out, err := c.Try("get", "volumeattachments", "-o", "name")
		if node := only(c); err != nil || out != "" || len(node.Status.VolumesAttached)+len(node.Status.VolumesInUse) != 0 {
			return fmt.Errorf("there is %s, the node says %v, %v, %v", out, node.Status.VolumesAttached, node.Status.VolumesInUse, err)
		}
		return nil
	})
	log := c.Kubectl("logs", "-n", "kube-system", "daemonset/driver")
	for _, call := range []string{"stage h1\n", "publish h1\n", "expand h1\n", "unpublish h1\n", "unstage h1\n"} {
		if n := strings.Count("\n"+log, "\n"+call); n != 1 {
			t.Errorf("the driver was called %d times to %s:\n%s", n, call, log)
		}
	}
	c.Kubectl("delete", "daemonset", "-n", "kube-system", "driver")
	c.Eventually(time.Minute, "the driver is taken out of the CSINode", func() error {
		if out, err := c.Try("get", "csinodes", "-o", "jsonpath={.items[*].spec.drivers[*].name}"); err != nil || out != "" {
			return fmt.Errorf("it says %s, %v", out, err)
		}
		return nil
	})
	c.Eventually(time.Minute, "no gap is left", func() error { // the driver's pod ends a moment later
		if out := c.Setpoint("status"); !strings.Contains(out, "none: every loop has closed what it saw") {
			return fmt.Errorf("status says\n%s", out)
		}
		return nil
	})
}

// attachAll plays the attacher of a driver: it says of the one volume that is to
// be attached that it is.
func attachAll(c *harness.Cluster) {
	c.T.Helper()
	c.Eventually(time.Minute, "a volume is asked to be attached", func() error {
		var list storagev1.VolumeAttachmentList
		decode(c, &list, "get", "volumeattachments", "-o", "json")
		if len(list.Items) != 1 || list.Items[0].Spec.Attacher != disks {
			return fmt.Errorf("there is %+v", list.Items)
		}
		c.Kubectl("patch", "volumeattachment", list.Items[0].Name, "--subresource=status", "--type=merge", "-p", `{"status":{"attached":true}}`)
		return nil
	})
}

// only is the node of a cluster that has one.
func only(c *harness.Cluster) corev1.Node {
	c.T.Helper()
	var list corev1.NodeList
	decode(c, &list, "get", "nodes", "-o", "json")
	if len(list.Items) != 1 {
		c.T.Fatalf("there are %d nodes", len(list.Items))
	}
	return list.Items[0]
}
