package admission

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// A kubelet asks in the name of the pods that run on it, as they are.
func TestNodeRestrictionOnPodCertificates(t *testing.T) {
	pod := func(node string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: named("web", "x"), Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: "app"}}
		p.UID = "pod"
		return p
	}
	account, node := &corev1.ServiceAccount{ObjectMeta: named("web", "app")}, &corev1.Node{ObjectMeta: named("", "n1")}
	account.UID, node.UID = "account", "node"
	mirror := pod("n1")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	w := world{"pods/web/x": pod("n1"), "pods/web/elsewhere": pod("n2"), "pods/web/mirror": mirror, "serviceaccounts/web/app": account, "nodes//n1": node}
	p := &NodeRestriction{Get: w.get, NodeOf: authz.NodeOf}
	const res = "podcertificaterequests.certificates.k8s.io"
	asked := func(change func(*certificatesv1.PodCertificateRequestSpec)) *certificatesv1.PodCertificateRequest {
		r := &certificatesv1.PodCertificateRequest{ObjectMeta: named("web", "r"), Spec: certificatesv1.PodCertificateRequestSpec{
			PodName: "x", PodUID: "pod", ServiceAccountName: "app", ServiceAccountUID: "account", NodeName: "n1", NodeUID: "node",
		}}
		change(&r.Spec)
		return r
	}
	type spec = certificatesv1.PodCertificateRequestSpec
	for name, c := range map[string]struct {
		change func(*spec)
		code   int32
		want   string
	}{
		"its own":             {func(*spec) {}, 0, ""},
		"another node's":      {func(s *spec) { s.NodeName = "n2" }, 403, `PodCertificateRequest.Spec.NodeName="n2", which is not the requesting node "n1"`},
		"a pod elsewhere":     {func(s *spec) { s.PodName = "elsewhere" }, 403, `pod "elsewhere" is not running on node "n1"`},
		"a pod that is gone":  {func(s *spec) { s.PodName = "gone" }, 404, "not found"},
		"a mirror pod":        {func(s *spec) { s.PodName = "mirror" }, 403, `pod "mirror" is a mirror pod`},
		"a pod before":        {func(s *spec) { s.PodUID = "before" }, 403, `contains podUID ("before")`},
		"another account":     {func(s *spec) { s.ServiceAccountName = "admin" }, 403, `contains serviceAccountName ("admin")`},
		"an account before":   {func(s *spec) { s.ServiceAccountUID = "before" }, 403, `contains serviceAccountUID ("before")`},
		"itself, made before": {func(s *spec) { s.NodeUID = "before" }, 403, `contains nodeUID ("before")`},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(Create, res, asked(c.change), nil)
			r.User = &authn.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}
			if c.code == 0 {
				mustAdmit(t, p, r)
			} else {
				wantRefused(t, p.Admit(t.Context(), r), c.code, c.want)
			}
		})
	}
	r := request(Update, res, asked(func(*spec) {}), asked(func(*spec) {}))
	r.User, r.Subresource = &authn.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}, "status"
	wantRefused(t, p.Admit(t.Context(), r), 403, "may only create PodCertificateRequests")
}
