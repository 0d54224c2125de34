package authz

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
)

var users = map[string]*authn.User{
	"admin":       {Name: "kubernetes-admin", Groups: []string{"system:masters", "system:authenticated"}},
	"controllers": {Name: "system:kube-controller-manager", Groups: []string{"system:authenticated"}},
	"loops":       {Name: "system:kube-controller-manager"}, // in the server's process
	"scheduler":   {Name: "system:kube-scheduler", Groups: []string{"system:authenticated"}},
	"proxy":       {Name: "system:kube-proxy", Groups: []string{"system:authenticated"}},
	"node":        {Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}},
	"no-node":     {Name: "system:node:n1", Groups: []string{"system:authenticated"}},
	"jane":        {Name: "jane", Groups: []string{"dev", "system:authenticated"}},
	"account":     {Name: "system:serviceaccount:web:app", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:web", "system:authenticated"}},
	"anonymous":   authn.AnonymousUser(),
}

func pod(ns, name string, spec corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: spec}
}

func local(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

// podsOnN1 name each object in another way.
func podsOnN1() []*corev1.Pod {
	return []*corev1.Pod{
		pod("web", "a", corev1.PodSpec{
			ServiceAccountName: "app",
			ImagePullSecrets:   []corev1.LocalObjectReference{local("pull")},
			Volumes: []corev1.Volume{
				{Name: "v1", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s-vol"}}},
				{Name: "v2", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: local("s-proj")}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("kube-root-ca.crt")}},
				}}}},
				{Name: "v3", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				{Name: "v4", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("c-vol")}}},
			},
			InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("s-init")}}}}},
			Containers: []corev1.Container{{
				Env: []corev1.EnvVar{
					{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local("s-env")}}},
					{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local("c-env")}}},
				},
				EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("c-from")}}},
			}},
		}),
	}
}

func builtin() *Builtin {
	return &Builtin{Nodes: &Nodes{
		PodsOn: func(node string) []*corev1.Pod {
			if node == "n1" {
				pods, named, made := podsOnN1(), "named", "made"
				pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: &named}}
				pods[0].Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "b", ResourceClaimName: &made}, {Name: "none"}}
				return pods
			}
			return nil
		},
		AttachedTo: func(name string) string {
			node, _ := strings.CutPrefix(name, "to-")
			return node
		},
		VolumeOf: func(namespace, claim string) *corev1.PersistentVolume {
			if namespace != "web" || claim != "data" {
				return nil
			}
			ref := func(name string) *corev1.SecretReference {
				return &corev1.SecretReference{Namespace: "storage", Name: name}
			}
			return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				NodeStageSecretRef: ref("stage"), NodePublishSecretRef: ref("publish"), NodeExpandSecretRef: ref("expand"), ControllerPublishSecretRef: ref("attach")}}}}
		},
	}}
}

// parse reads "get pods/log.apps web/x", "list nodes", "get /healthz". A
// namespace is what stands before the slash.
func parse(t *testing.T, user, line string) *Attributes {
	t.Helper()
	a := &Attributes{User: users[user]}
	if a.User == nil {
		t.Fatalf("no user %q", user)
	}
	verb, rest, _ := strings.Cut(line, " ")
	a.Verb = verb
	if strings.HasPrefix(rest, "/") {
		a.Path = rest
		return a
	}
	a.IsResource = true
	res, object, _ := strings.Cut(rest, " ")
	res, a.Subresource, _ = strings.Cut(res, "/")
	a.Resource, a.Group, _ = strings.Cut(res, ".")
	if ns, name, ok := strings.Cut(object, "/"); ok {
		a.Namespace, a.Name = ns, name
	} else {
		a.Name = object
	}
	return a
}

func TestBuiltin(t *testing.T) {
	b := builtin()
	for _, tc := range []struct {
		user, ask string
		want      bool
	}{
		{"admin", "delete pods web/x", true},
		{"admin", "create pods/exec web/x", true},
		{"admin", "escalate clusterroles.rbac.authorization.k8s.io x", true},
		{"admin", "get /metrics", true},

		{"anonymous", "get /version", true},
		{"anonymous", "get /livez", true},
		{"anonymous", "get /readyz", true},
		{"anonymous", "get /healthz", true},
		{"anonymous", "post /healthz", false},
		{"anonymous", "post /setpoint/v1/join", true},
		{"anonymous", "get /api", false},
		{"anonymous", "get /metrics", false},
		{"anonymous", "get pods web/x", false},
		{"anonymous", "create selfsubjectreviews.authentication.k8s.io", false},

		{"jane", "get /apis/apps/v1", true},
		{"jane", "get /openapi/v3", true},
		{"loops", "get /openapi/v3/apis/apps/v1", true},
		{"loops", "get /apis/custom.metrics.k8s.io", true},
		{"loops", "get /logs", false},
		{"jane", "get /metrics", false},
		{"jane", "create selfsubjectreviews.authentication.k8s.io", true},
		{"jane", "create selfsubjectaccessreviews.authorization.k8s.io", true},
		{"jane", "create subjectaccessreviews.authorization.k8s.io", false},
		{"jane", "list pods web/", false},

		{"account", "get /openid/v1/jwks", true},
		{"jane", "get /openid/v1/jwks", false},
		{"account", "get pods web/x", false},
		{"account", "get secrets web/s-vol", false},

		{"controllers", "delete widgets.example.com web/x", true},
		{"controllers", "create pods web/", true},
		{"controllers", "create deployments.apps web/", false},
		{"controllers", "create pods/exec web/x", false},
		{"controllers", "create clusterrolebindings.rbac.authorization.k8s.io", false},
		{"controllers", "create events web/", true},
		{"controllers", "update deployments.apps/status web/x", true},

		{"scheduler", "create pods/binding web/x", true},
		{"scheduler", "patch pods/status web/x", true},
		{"scheduler", "watch nodes", true},
		{"scheduler", "create pods web/", false},
		{"scheduler", "get secrets web/x", false},
		{"scheduler", "update leases.coordination.k8s.io kube-system/kube-scheduler", true},
		{"scheduler", "update leases.coordination.k8s.io web/x", false},
		{"scheduler", "update persistentvolumes v", true},
		{"scheduler", "update persistentvolumeclaims web/x", true},
		{"scheduler", "delete persistentvolumeclaims web/x", false},
		{"scheduler", "update resourceclaims.resource.k8s.io/status web/x", true},
		{"scheduler", "watch csistoragecapacities.storage.k8s.io", true},
		{"controllers", "create resourceclaims.resource.k8s.io web/", true},
		{"controllers", "create volumeattachments.storage.k8s.io", true},
		{"controllers", "update nodes/status n1", true},

		{"proxy", "watch endpointslices.discovery.k8s.io", true},
		{"proxy", "update services web/x", false},

		{"no-node", "watch pods", false},
		{"no-node", "get secrets web/s-vol", false},
	} {
		if got, _ := b.Authorize(context.Background(), parse(t, tc.user, tc.ask)); got != tc.want {
			t.Errorf("%s: %s: %v, want %v", tc.user, tc.ask, got, tc.want)
		}
	}
}

func TestNode(t *testing.T) {
	b := builtin()
	for _, tc := range []struct {
		ask    string
		want   bool
		reason string
	}{
		{"watch pods", true, ""},
		{"create nodes", true, ""},
		{"patch nodes/status n1", true, ""},
		{"patch pods/status web/a", true, ""},
		{"delete pods web/a", true, ""},
		{"update pods web/a", false, ""},
		{"deletecollection pods web/", false, ""},
		{"create events web/", true, ""},
		{"create leases.coordination.k8s.io kube-node-lease/", true, ""},
		{"update leases.coordination.k8s.io kube-node-lease/n1", true, ""},
		{"update leases.coordination.k8s.io kube-node-lease/n2", false, "node lease of its own"},
		{"get leases.coordination.k8s.io kube-system/n1", false, ""},

		{"get secrets web/s-vol", true, ""},
		{"watch secrets web/s-proj", true, ""},
		{"list secrets web/pull", true, ""},
		{"get secrets web/s-init", true, ""},
		{"get secrets web/s-env", true, ""},
		{"get secrets other/s-env", false, "no relationship found between node 'n1' and this object"},
		{"get secrets web/none", false, "no relationship found"},
		{"update secrets web/s-env", false, "can only get/list/watch"},
		{"list secrets web/", false, "No Object name found"},
		{"list secrets", false, "No Object name found"},
		{"get configmaps web/c-vol", true, ""},
		{"get configmaps web/c-env", true, ""},
		{"get configmaps web/c-from", true, ""},
		{"get configmaps web/kube-root-ca.crt", true, ""},
		{"get configmaps web/s-env", false, "no relationship"},
		{"get serviceaccounts web/app", true, ""},
		{"get serviceaccounts web/default", false, "no relationship"},
		{"create serviceaccounts/token web/app", true, ""},
		{"create serviceaccounts/token web/default", false, "no relationship"},
		{"get persistentvolumeclaims web/data", true, ""},
		{"get persistentvolumeclaims web/a-tmp", true, ""},
		{"update persistentvolumeclaims web/data", false, "can only get"},
		{"update persistentvolumeclaims/status web/data", true, ""},
		{"update persistentvolumeclaims/status web/other", false, "no relationship"},
		{"get secrets storage/stage", true, ""},
		{"get secrets storage/publish", true, ""},
		{"watch secrets storage/expand", true, ""},
		{"get secrets storage/attach", false, "no relationship"},
		{"get secrets web/stage", false, "no relationship"},
		{"get volumeattachments.storage.k8s.io to-n1", true, ""},
		{"get volumeattachments.storage.k8s.io to-n2", false, "no relationship"},
		{"get volumeattachments.storage.k8s.io none", false, "no relationship"},
		{"list volumeattachments.storage.k8s.io", false, "can only get"},
		{"update volumeattachments.storage.k8s.io to-n1", false, "can only get"},
		{"get csinodes.storage.k8s.io n2", false, "CSINode of its own"},
		{"delete csinodes.storage.k8s.io n2", false, "CSINode of its own"},
		{"create csinodes.storage.k8s.io", true, ""},
		{"update csinodes.storage.k8s.io n1", true, ""},
		{"list resourceslices.resource.k8s.io", true, ""},
		{"delete resourceslices.resource.k8s.io s", true, ""},
		{"create resourceslices.resource.k8s.io s", false, ""},
		{"get resourceclaims.resource.k8s.io web/named", true, ""},
		{"get resourceclaims.resource.k8s.io web/made", true, ""},
		{"get resourceclaims.resource.k8s.io web/other", false, "no relationship"},
		{"update resourceclaims.resource.k8s.io web/named", false, "can only get"},
		{"get persistentvolumes pv-1", true, ""},
		{"patch persistentvolumes pv-1", true, ""},
		{"update persistentvolumes pv-1", false, ""},
		{"create persistentvolumes pv-2", false, ""},
		{"get deployments.apps web/x", false, ""},
	} {
		got, reason := b.Authorize(context.Background(), parse(t, "node", tc.ask))
		if got != tc.want || !strings.Contains(reason, tc.reason) || (tc.reason == "" && reason != "") {
			t.Errorf("%s: %v %q, want %v %q", tc.ask, got, reason, tc.want, tc.reason)
		}
	}
}

func TestRulesFor(t *testing.T) {
	b := builtin()
	count := func(user, ns string) int {
		return len(b.RulesFor(&Attributes{User: users[user], Namespace: ns}))
	}
	if n := count("anonymous", "web"); n != 2 {
		t.Errorf("anonymous has %d rules, want 2", n)
	}
	if count("node", "kube-node-lease") != count("node", "web")+1 {
		t.Error("a node's lease rule must show in kube-node-lease only")
	}
}

type always struct {
	ok     bool
	reason string
}

func (a always) Authorize(context.Context, *Attributes) (bool, string) { return a.ok, a.reason }

func TestUnion(t *testing.T) {
	for _, tc := range []struct {
		u      Union
		ok     bool
		reason string
	}{
		{Union{}, false, ""},
		{Union{always{false, "a"}, always{false, ""}, always{false, "b"}}, false, "a\nb"},
		{Union{always{false, "a"}, always{true, ""}}, true, ""},
	} {
		if ok, reason := tc.u.Authorize(context.Background(), nil); ok != tc.ok || reason != tc.reason {
			t.Errorf("%v: %v %q", tc.u, ok, reason)
		}
	}
}

func BenchmarkNodeGetsSecret(b *testing.B) {
	z := builtin()
	a := &Attributes{User: users["node"], Verb: "get", Resource: "secrets", Namespace: "web", Name: "s-env", IsResource: true}
	for b.Loop() {
		if ok, _ := z.Authorize(context.Background(), a); !ok {
			b.Fatal("refused")
		}
	}
}
