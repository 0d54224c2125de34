package csi

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSidecars: what people install beside a CSI driver makes volumes of claims,
// attaches, enlarges, changes, copies and deletes them, together with our loops,
// our scheduler and our kubelet, with the rights that it brings.
func TestSidecars(t *testing.T) {
	r := start(t)
	for _, node := range []string{"first", "second"} {
		r.until("csinode/"+node, "{.spec.drivers[*].name} {.spec.drivers[*].topologyKeys} {.spec.drivers[*].allocatable.count}", name+` ["`+name+`/node","`+name+`/zone"] 20`)
	}
	t.Run("parts", func(t *testing.T) {
		for part, test := range map[string]func(rig){
			"immediate": testImmediate, "first consumer": testMoves, "resize": testResize, "attributes": testAttributes, "ephemeral": testEphemeral,
			"capacity": testCapacity, "block": testBlock, "snapshot": testSnapshot, "forced": testForced, "statistics": testStatistics,
		} {
			t.Run(part, func(t *testing.T) {
				t.Parallel()
				test(r.in(t))
			})
		}
	})
	// Not tests of their own, with which what they start would end.
	testKilled(r)
	testGone(r)
	r.Kubectl("delete", "pvc", "--all", "--timeout=300s")
	r.Eventually(time.Minute, "every disk is deleted", func() error {
		left, err := os.ReadDir(r.disks + "/disks")
		if err != nil || len(left) > 0 {
			return fmt.Errorf("there is %v, %v", left, err)
		}
		return nil
	})
	if data, err := os.ReadDir(r.disks + "/data"); err != nil || len(data) > 0 {
		t.Errorf("data is left: %v, %v", data, err)
	}
	r.Eventually(time.Minute, "no volume and no attachment is left", func() error {
		if out, err := r.Try("get", "pv,volumeattachments", "-o", "name"); err != nil || out != "" {
			return fmt.Errorf("there is %s, %v", out, err)
		}
		return nil
	})
	if wrong := r.read("wrong"); wrong != "" {
		t.Errorf("the driver was asked what may not be asked:\n%s", wrong)
	}
	r.Eventually(time.Minute, "no gap is left", func() error {
		if out := r.Setpoint("status"); !strings.Contains(out, "none: every loop has closed what it saw") {
			return fmt.Errorf("status says\n%s", out)
		}
		return nil
	})
}

// testImmediate: a claim of a class that binds at once gets its volume before
// any pod asks for it, and loses it with the claim.
func testImmediate(r rig) {
	r.Apply(claim("now", "now", ""))
	r.until("pvc/now", "{.status.phase} {.status.capacity.storage}", "Bound 1Gi")
	volume := r.get("pvc/now", "{.spec.volumeName}")
	if got := r.get("pv/"+volume, "{.spec.csi.driver} {.spec.persistentVolumeReclaimPolicy} {.metadata.annotations.pv\\.kubernetes\\.io/provisioned-by}"); got != name+" Delete "+name {
		r.T.Errorf("the volume says %q", got)
	}
	r.Kubectl("delete", "pvc", "now")
	r.called(volume, "first create", "first delete")
	r.gone("pv/" + volume)
}

// testMoves: a volume is made for the first pod that needs it, attached to its
// node, and follows its pods to another one with its data.
func testMoves(r rig) {
	r.Apply(claim("moves", "late", "") + pod("moves-1", "first", of("moves"), false))
	r.ready("moves-1")
	volume := r.get("pvc/moves", "{.spec.volumeName}")
	r.sh("moves-1", "echo kept > /v/x; sync")
	if got := r.get("volumeattachments", `{.items[?(@.spec.source.persistentVolumeName=="`+volume+`")].spec.nodeName}`); got != "first" {
		r.T.Errorf("it is attached to %q", got)
	}
	r.called(volume, "first create", "first attach to first", "first stage", "first publish")
	// A pod elsewhere waits, and says for whom, until the first one is deleted.
	r.Apply(pod("moves-2", "second", of("moves"), false))
	r.Eventually(time.Minute, "the pod elsewhere says whom it waits for", func() error {
		if out, err := r.Try("get", "events", "--field-selector", "involvedObject.name=moves-2"); err != nil || !strings.Contains(out, "Multi-Attach error for volume \""+volume+"\" Volume is already used by pod(s) moves-1") {
			return fmt.Errorf("it says\n%s, %v", out, err)
		}
		return nil
	})
	r.Kubectl("delete", "pod", "moves-1")
	r.ready("moves-2")
	if got := r.sh("moves-2", "cat /v/x"); got != "kept\n" {
		r.T.Errorf("the second pod sees %q", got)
	}
	r.called(volume, "first unpublish", "first unstage", "first detach from first", "first attach to second", "second stage", "second publish")
	r.Kubectl("delete", "pod", "moves-2")
	r.called(volume, "second unpublish", "second unstage", "first detach from second")
}

// testResize: a claim that asks for more gets it while its pod runs.
func testResize(r rig) {
	r.Apply(claim("grows", "late", "") + pod("grows", "second", of("grows"), false))
	r.ready("grows")
	volume := r.get("pvc/grows", "{.spec.volumeName}")
	r.Kubectl("patch", "pvc", "grows", "-p", `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`)
	r.until("pvc/grows", "{.status.capacity.storage}{.status.conditions}{.status.allocatedResourceStatuses}", "3Gi")
	r.called(volume, "second publish", "first enlarge", "second expand")
	// What is not used anywhere is enlarged on its next node.
	r.Kubectl("delete", "pod", "grows")
	r.called(volume, "second unpublish", "second unstage", "first detach from second")
	r.Kubectl("patch", "pvc", "grows", "-p", `{"spec":{"resources":{"requests":{"storage":"4Gi"}}}}`)
	r.until("pvc/grows", "{.status.allocatedResourceStatuses.storage}", "NodeResizePending")
	r.Apply(pod("grows-on", "first", of("grows"), false))
	r.ready("grows-on")
	r.until("pvc/grows", "{.status.capacity.storage}{.status.conditions}{.status.allocatedResourceStatuses}", "4Gi")
	r.called(volume, "first enlarge", "first attach to first", "first stage", "first publish", "first expand")
	r.Kubectl("delete", "pod", "grows-on")
}

// testAttributes: a volume becomes what another class of attributes says.
func testAttributes(r rig) {
	r.Apply(claim("speeds", "now", ", volumeAttributesClassName: silver"))
	r.until("pvc/speeds", "{.status.phase} {.status.currentVolumeAttributesClassName}", "Bound silver")
	volume := r.get("pvc/speeds", "{.spec.volumeName}")
	speed := func() string {
		var d struct{ Parameters map[string]string }
		if err := json.Unmarshal([]byte(r.read("disks/"+volume)), &d); err != nil {
			r.T.Fatal(err)
		}
		return d.Parameters["speed"]
	}
	if got := speed(); got != "1" {
		r.T.Errorf("it is made with %q", got)
	}
	r.Kubectl("patch", "pvc", "speeds", "-p", `{"spec":{"volumeAttributesClassName":"gold"}}`)
	r.until("pvc/speeds", "{.status.currentVolumeAttributesClassName}{.status.modifyVolumeStatus}{.status.conditions}", "gold")
	r.until("pv/"+volume, "{.spec.volumeAttributesClassName}", "gold")
	if got := speed(); got != "2" {
		r.T.Errorf("it is %q afterwards", got)
	}
}

// testEphemeral: volumes that are a pod's own come and go with it, by a claim or
// in its spec alone.
func testEphemeral(r rig) {
	r.Apply(pod("own", "", "ephemeral: {volumeClaimTemplate: {spec: {storageClassName: late, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}", false) +
		pod("inline", "second", "csi: {driver: "+name+", volumeAttributes: {text: hello}}", false))
	r.ready("own", "inline")
	if got := r.sh("inline", "cat /v/of"); got != "inline hello\n" {
		r.T.Errorf("the pod's own volume holds %q", got)
	}
	r.sh("own", "echo x > /v/x")
	volume := r.get("pvc/own-v", "{.spec.volumeName}")
	r.Kubectl("delete", "pod", "own", "inline")
	r.gone("pvc/own-v", "pv/"+volume)
	r.called(volume, "first delete")
}

// testCapacity: the scheduler goes by what the provisioner says is left.
func testCapacity(r rig) {
	r.Eventually(time.Minute, "the provisioner says what is left where", func() error {
		out, err := r.Try("get", "csistoragecapacities", "-o", `jsonpath={range .items[*]}{.storageClassName}/{.nodeTopology.matchLabels.disk\.example\.com/node}={.capacity} {.metadata.ownerReferences[0].kind}{"\n"}{end}`)
		if err != nil {
			return err
		}
		for _, want := range []string{"second-only/first=0 Deployment\n", "second-only/second=10Gi Deployment\n", "late/first=10Gi Deployment\n", "late/second=10Gi Deployment\n"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("no %s in\n%s", want, out)
			}
		}
		return nil
	})
	r.Apply(claim("there", "second-only", "") + pod("there", "", of("there"), false))
	r.ready("there")
	if got := r.get("pod/there", "{.spec.nodeName}"); got != "second" {
		r.T.Errorf("it is on %s", got)
	}
	r.Apply("---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: huge}\nspec: {storageClassName: late, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Ti}}}\n" + pod("huge", "", of("huge"), false))
	r.Eventually(time.Minute, "the pod says that there is not room enough", func() error {
		if out, err := r.Try("get", "pod", "huge", "-o", "jsonpath={.status.conditions[*].message}"); err != nil || !strings.Contains(out, "2 node(s) did not have enough free storage") {
			return fmt.Errorf("it says %s, %v", out, err)
		}
		return nil
	})
	r.Kubectl("delete", "pod", "there", "huge")
}

// testBlock: a claim for a device is one, of the size that it asked for, and
// grows.
func testBlock(r rig) {
	r.Apply(claim("raw", "late", ", volumeMode: Block") + pod("raw", "", of("raw"), true))
	r.ready("raw")
	const size = "blockdev --getsize64 /dev/v"
	if got := r.sh("raw", "echo raw | dd of=/dev/v conv=fsync 2>/dev/null; dd if=/dev/v bs=4 count=1 2>/dev/null; echo $(("+"$("+size+") >> 30))"); got != "raw\n1\n" {
		r.T.Errorf("the device says %q", got)
	}
	r.Kubectl("patch", "pvc", "raw", "-p", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	r.until("pvc/raw", "{.status.capacity.storage}{.status.conditions}", "2Gi")
	if got := r.sh("raw", "echo $(("+"$("+size+") >> 30))"); got != "2\n" {
		r.T.Errorf("afterwards it has %q", got)
	}
	r.Kubectl("delete", "pod", "raw")
	volume := r.get("pvc/raw", "{.spec.volumeName}")
	r.Eventually(time.Minute, "the device is detached", func() error {
		if got := r.calls(volume); !strings.Contains(got[len(got)-1], "detach from") {
			return fmt.Errorf("the calls are %q", got)
		}
		return nil
	})
}

// testSnapshot: a snapshot is taken of a volume, and volumes are made of it and
// of the volume itself.
func testSnapshot(r rig) {
	r.Apply(claim("old", "now", "") + pod("old", "first", of("old"), false))
	r.ready("old")
	r.sh("old", "echo then > /v/x; sync")
	r.Apply("apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshot\nmetadata: {name: snap}\nspec: {volumeSnapshotClassName: snaps, source: {persistentVolumeClaimName: old}}\n")
	r.until("volumesnapshot/snap", "{.status.readyToUse} {.status.restoreSize}", "true 1Gi")
	r.sh("old", "echo later > /v/x; sync")
	r.Apply(claim("restored", "late", ", dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: snap}") + pod("restored", "second", of("restored"), false) +
		claim("cloned", "late", ", dataSource: {kind: PersistentVolumeClaim, name: old}") + pod("cloned", "second", of("cloned"), false))
	r.ready("restored", "cloned")
	if got := r.sh("restored", "cat /v/x") + r.sh("cloned", "cat /v/x"); got != "then\nlater\n" {
		r.T.Errorf("they hold %q", got)
	}
	r.Kubectl("delete", "pod", "old", "restored", "cloned")
	r.Kubectl("delete", "volumesnapshot", "snap", "--timeout=300s")
	r.Eventually(time.Minute, "nothing is left of the snapshot", func() error {
		if out, err := r.Try("get", "volumesnapshotcontents", "-o", "name"); err != nil || out != "" {
			return fmt.Errorf("there is %s, %v", out, err)
		}
		return nil
	})
}

// testForced: a pod that is removed by force leaves nothing behind.
func testForced(r rig) {
	r.Apply(claim("forced", "now", "") + pod("forced", "second", of("forced"), false))
	r.ready("forced")
	volume := r.get("pvc/forced", "{.spec.volumeName}")
	r.Kubectl("delete", "pod", "forced", "--force", "--grace-period=0")
	r.called(volume, "second publish", "second unpublish", "second unstage", "first detach from second")
}

// testStatistics: the kubelet says of a volume what its driver says of it.
func testStatistics(r rig) {
	r.Apply(claim("measured", "late", "") + pod("measured", "first", of("measured"), false))
	r.ready("measured")
	r.Eventually(time.Minute, "the summary tells of the volume", func() error {
		out, err := r.Try("get", "--raw", "/api/v1/nodes/first/proxy/stats/summary")
		if err != nil {
			return err
		}
		var s struct {
			Pods []struct {
				PodRef struct{ Name string }
				Volume []struct {
					Name                                 string
					CapacityBytes, UsedBytes, InodesFree uint64
					PVCRef                               *struct{ Name, Namespace string }
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			return err
		}
		for _, p := range s.Pods {
			for _, v := range p.Volume {
				if p.PodRef.Name == "measured" && v.Name == "v" && v.CapacityBytes == 1<<30 && v.UsedBytes == 1000 && v.InodesFree == 99 && v.PVCRef != nil && v.PVCRef.Name == "measured" && v.PVCRef.Namespace == "default" {
					return nil
				}
			}
		}
		return fmt.Errorf("it says %+v", s)
	})
	r.Kubectl("delete", "pod", "measured")
}

// testKilled: neither Setpoint nor the driver need be there for what is mounted.
func testKilled(r rig) {
	r.Apply(claim("stays", "now", "") + pod("stays", "first", of("stays"), false))
	r.ready("stays")
	volume := r.get("pvc/stays", "{.spec.volumeName}")
	r.sh("stays", "echo kept > /v/x; sync")
	container := r.get("pod/stays", "{.status.containerStatuses[0].containerID}")
	r.Kill()
	r.Up()
	r.Kubectl("rollout", "restart", "daemonset/driver")
	r.Kubectl("rollout", "status", "daemonset/driver", "--timeout=300s")
	if got := r.sh("stays", "cat /v/x"); got != "kept\n" || r.get("pod/stays", "{.status.containerStatuses[0].containerID}") != container {
		r.T.Errorf("afterwards the pod sees %q", got)
	}
	r.Kubectl("delete", "pod", "stays")
	r.called(volume, "first create", "first attach to first", "first stage", "first publish", "first unpublish", "first unstage", "first detach from first")
}

// testGone: a volume whose driver has left its node stays where it is, and
// status says so, until it comes back.
func testGone(r rig) {
	r.Apply(claim("waits", "now", "") + pod("waits", "second", of("waits"), false))
	r.ready("waits")
	volume := r.get("pvc/waits", "{.spec.volumeName}")
	r.Kubectl("label", "node", "second", "without-driver=")
	r.until("csinode/second", "{.spec.drivers[*].name}", "")
	r.Kubectl("delete", "pod", "waits", "--wait=false")
	r.Eventually(time.Minute, "status says what is missing", func() error {
		if out := r.Setpoint("status"); !strings.Contains(out, name+" not found in the list of registered CSI drivers") {
			return fmt.Errorf("it says\n%s", out)
		}
		return nil
	})
	if got := r.calls(volume); got[len(got)-1] != "second publish" {
		r.T.Errorf("without the driver there was %q", got)
	}
	r.Kubectl("label", "node", "second", "without-driver-")
	r.called(volume, "second publish", "second unpublish", "second unstage", "first detach from second")
	r.gone("pod/waits")
}
