package admission

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

func TestNodeRestriction(t *testing.T) {
	kubelet := &authn.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}
	on := func(node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: named("web", "x"), Spec: corev1.PodSpec{NodeName: node}}
	}
	mirror := on("n1")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	node := func(name string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: named("", name), Spec: corev1.NodeSpec{Taints: taints}}
	}
	labelled := node("n1")
	labelled.Labels = map[string]string{"node-restriction.kubernetes.io/pci": "yes"}
	taint := corev1.Taint{Key: "k", Effect: "NoSchedule"}
	lease := func(ns, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: named(ns, name)}
	}
	csiNode := func(name string) *storagev1.CSINode { return &storagev1.CSINode{ObjectMeta: named("", name)} }
	claim := func(size, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: named("web", "data"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}
	}
	devices := func(node string) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{ObjectMeta: named("", "s")}
		if node != "" {
			s.Spec.NodeName = &node
		}
		return s
	}
	lost := claim("1Gi", "v")
	lost.Status.Phase = corev1.ClaimLost
	sub := func(r *Request, name string) *Request { r.Subresource = name; return r }
	w := world{"pods/web/x": on("n2")}
	p := &NodeRestriction{Get: w.get, NodeOf: authz.NodeOf}
	for _, tc := range []struct {
		name string
		r    *Request
		msg  string
	}{
		{"create itself", request(Create, "nodes", node("n1"), nil), ""},
		{"create another", request(Create, "nodes", node("n2"), nil), `node "n1" is not allowed to modify node "n2"`},
		{"own status", sub(request(Update, "nodes", node("n1"), node("n1")), "status"), ""},
		{"other status", sub(request(Update, "nodes", node("n2"), node("n2")), "status"), "not allowed"},
		{"own devices", request(Delete, "resourceslices.resource.k8s.io", nil, devices("n1")), ""},
		{"devices of another", request(Delete, "resourceslices.resource.k8s.io", nil, devices("n2")), "with the same nodeName"},
		{"devices of no node", request(Delete, "resourceslices.resource.k8s.io", nil, devices("")), "with the same nodeName"},
		{"own taints", request(Update, "nodes", node("n1"), node("n1", taint)), "modify taints"},
		{"restricted label", request(Update, "nodes", labelled, node("n1")), "node-restriction.kubernetes.io/pci"},
		{"own pod's status", sub(request(Update, "pods", on("n1"), on("n1")), "status"), ""},
		{"other pod's status", sub(request(Update, "pods", on("n2"), on("n2")), "status"), "spec.nodeName set to itself"},
		{"delete own pod", request(Delete, "pods", nil, on("n1")), ""},
		{"delete other pod", request(Delete, "pods", nil, on("n2")), "can only delete pods"},
		{"mirror pod", request(Create, "pods", mirror, nil), ""},
		{"any pod", request(Create, "pods", on("n1"), nil), "can only create mirror pods"},
		{"evict other pod", sub(request(Create, "pods", &corev1.Pod{ObjectMeta: named("web", "x")}, nil), "eviction"), "can only evict pods"},
		{"own lease", request(Create, "leases.coordination.k8s.io", lease("kube-node-lease", "n1"), nil), ""},
		{"other lease", request(Create, "leases.coordination.k8s.io", lease("kube-node-lease", "n2"), nil), "same name"},
		{"own CSINode", request(Create, "csinodes.storage.k8s.io", csiNode("n1"), nil), ""},
		{"other CSINode", request(Update, "csinodes.storage.k8s.io", csiNode("n2"), csiNode("n2")), "same name as the requesting node"},
		{"a claim has grown", sub(request(Update, "persistentvolumeclaims", claim("2Gi", "v"), claim("1Gi", "v")), "status"), ""},
		{"a claim is lost", sub(request(Update, "persistentvolumeclaims", lost, claim("1Gi", "v")), "status"), "fields other than status.capacity"},
		{"a claim's volume", request(Update, "persistentvolumeclaims", claim("1Gi", "w"), claim("1Gi", "v")), "can only update the status"},
		{"lease elsewhere", request(Update, "leases.coordination.k8s.io", lease("web", "n1"), lease("web", "n1")), "system namespace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.r.User = kubelet
			if tc.msg == "" {
				mustAdmit(t, p, tc.r)
			} else {
				wantRefused(t, p.Admit(t.Context(), tc.r), 403, tc.msg)
			}
			tc.r.User = &authn.User{Name: "jane"}
			if err := p.Admit(t.Context(), tc.r); err != nil {
				t.Errorf("somebody who is no node: %v", err)
			}
		})
	}
}
