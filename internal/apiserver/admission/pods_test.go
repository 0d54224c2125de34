package admission

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

func TestNamespaceLifecycle(t *testing.T) {
	now := metav1.Now()
	w := world{
		"namespaces//web":    &corev1.Namespace{ObjectMeta: named("", "web")},
		"namespaces//ending": &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending", DeletionTimestamp: &now}},
		"namespaces//phase":  &corev1.Namespace{ObjectMeta: named("", "phase"), Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}},
	}
	p := &NamespaceLifecycle{Get: w.get}
	pod := func(ns string) *corev1.Pod { return &corev1.Pod{ObjectMeta: named(ns, "x")} }
	for _, tc := range []struct {
		name string
		r    *Request
		code int32
		msg  string
	}{
		{"there", request(Create, "pods", pod("web"), nil), 0, ""},
		{"missing", request(Create, "pods", pod("none"), nil), 404, `namespaces "none" not found`},
		{"ending", request(Create, "pods", pod("ending"), nil), 403, `pods "x" is forbidden: unable to create new content in namespace ending because it is being terminated`},
		{"phase", request(Create, "pods", pod("phase"), nil), 403, "being terminated"},
		{"update while ending", request(Update, "pods", pod("ending"), pod("ending")), 0, ""},
		{"delete while ending", request(Delete, "pods", nil, pod("ending")), 0, ""},
		{"delete default", request(Delete, "namespaces", nil, &corev1.Namespace{ObjectMeta: named("", "default")}), 403, `namespaces "default" is forbidden: this namespace may not be deleted`},
		{"delete kube-system", request(Delete, "namespaces", nil, &corev1.Namespace{ObjectMeta: named("", "kube-system")}), 403, "may not be deleted"},
		{"delete web", request(Delete, "namespaces", nil, &corev1.Namespace{ObjectMeta: named("", "web")}), 0, ""},
		{"cluster-scoped", request(Create, "nodes", &corev1.Node{ObjectMeta: named("", "n")}, nil), 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.code == 0 {
				mustAdmit(t, p, tc.r)
				return
			}
			wantRefused(t, p.Admit(t.Context(), tc.r), tc.code, tc.msg)
		})
	}
	err := p.Admit(t.Context(), request(Create, "pods", pod("ending"), nil))
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("%v has no cause %s, by which controllers know to stop", err, corev1.NamespaceTerminatingCause)
	}
}

func TestServiceAccountMountsToken(t *testing.T) {
	w := world{"serviceaccounts/web/default": &corev1.ServiceAccount{
		ObjectMeta: named("web", "default"), ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
	}}
	p := &ServiceAccount{Get: w.get}
	own := corev1.VolumeMount{Name: "mine", MountPath: tokenMountPath}
	pod := &corev1.Pod{ObjectMeta: named("web", "x"), Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}},
		Containers:     []corev1.Container{{Name: "a"}, {Name: "b", VolumeMounts: []corev1.VolumeMount{own}}},
	}}
	r := request(Create, "pods", pod, nil)
	mustAdmit(t, p, r)
	if pod.Spec.ServiceAccountName != "default" || pod.Spec.DeprecatedServiceAccount != "default" {
		t.Errorf("account %q, %q", pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount)
	}
	if len(pod.Spec.Volumes) != 1 {
		t.Fatalf("%d volumes, want 1", len(pod.Spec.Volumes))
	}
	v := pod.Spec.Volumes[0]
	if len(v.Name) != len("kube-api-access-xxxxx") || v.Projected == nil || len(v.Projected.Sources) != 3 {
		t.Errorf("volume %+v", v)
	}
	mount := []corev1.VolumeMount{{Name: v.Name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
	if diff := cmp.Diff(mount, pod.Spec.Containers[0].VolumeMounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(mount, pod.Spec.InitContainers[0].VolumeMounts); diff != "" {
		t.Errorf("init mounts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.VolumeMount{own}, pod.Spec.Containers[1].VolumeMounts); diff != "" {
		t.Errorf("a container's own mount (-want +got):\n%s", diff)
	}
	if len(pod.Spec.ImagePullSecrets) != 1 || pod.Spec.ImagePullSecrets[0].Name != "pull" {
		t.Errorf("pull secrets %v", pod.Spec.ImagePullSecrets)
	}
	before := pod.DeepCopy()
	mustAdmit(t, p, r)
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("a second pass changed the pod:\n%s", diff)
	}
}

// The pods of one controller have token volumes of one name, and mount nothing
// that differs between them.
func TestServiceAccountNamesVolumeByController(t *testing.T) {
	p := &ServiceAccount{Get: world{"serviceaccounts/web/default": &corev1.ServiceAccount{ObjectMeta: named("web", "default")}}.get}
	volume := func(name, owner string) string {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: named("web", name), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
		if owner != "" {
			yes := true
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: &yes}}
		}
		mustAdmit(t, p, request(Create, "pods", pod, nil))
		if len(pod.Spec.Volumes) != 1 || len(pod.Spec.Volumes[0].Name) != len("kube-api-access-xxxxx") {
			t.Fatalf("volumes %+v", pod.Spec.Volumes)
		}
		return pod.Spec.Volumes[0].Name
	}
	if a, b := volume("x", "set"), volume("y", "set"); a != b {
		t.Errorf("two pods of one set have volumes %s and %s", a, b)
	}
	names := map[string]bool{}
	for i := range 20 {
		names[volume("x", fmt.Sprint("set-", i))] = true
		names[volume("alone", "")] = true
	}
	if len(names) < 38 {
		t.Errorf("of 20 sets and 20 pods alone only %d names", len(names))
	}
}

func TestServiceAccountAutomount(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		account, pod *bool
		want         bool
	}{{nil, nil, true}, {&no, nil, false}, {&no, &yes, true}, {nil, &no, false}, {&yes, &no, false}} {
		w := world{"serviceaccounts/web/app": &corev1.ServiceAccount{ObjectMeta: named("web", "app"), AutomountServiceAccountToken: tc.account}}
		pod := &corev1.Pod{ObjectMeta: named("web", "x"), Spec: corev1.PodSpec{
			ServiceAccountName: "app", AutomountServiceAccountToken: tc.pod, Containers: []corev1.Container{{}},
		}}
		mustAdmit(t, &ServiceAccount{Get: w.get}, request(Create, "pods", pod, nil))
		if got := len(pod.Spec.Volumes) == 1; got != tc.want {
			t.Errorf("account %v, pod %v: mounted %v, want %v", tc.account, tc.pod, got, tc.want)
		}
	}
}

func TestServiceAccountMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{}
		p := &ServiceAccount{Get: w.get}
		pod := &corev1.Pod{ObjectMeta: named("web", "x"), Spec: corev1.PodSpec{ServiceAccountName: "app"}}
		start := time.Now()
		wantRefused(t, p.Admit(t.Context(), request(Create, "pods", pod, nil)), 403,
			`pods "x" is forbidden: error looking up service account web/app: serviceaccount "app" not found`)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v for an account that nobody makes by itself", waited)
		}
		// The default account of a new namespace is about to be made.
		pod.Spec.ServiceAccountName = ""
		made := time.Now().Add(300 * time.Millisecond)
		p.Get = func(ctx context.Context, res client.Resource, ns, name string) (client.Object, error) {
			if !time.Now().Before(made) {
				w["serviceaccounts/web/default"] = &corev1.ServiceAccount{ObjectMeta: named("web", "default")}
			}
			return w.get(ctx, res, ns, name)
		}
		mustAdmit(t, p, request(Create, "pods", pod, nil))
		delete(w, "serviceaccounts/web/default")
		p.Get = w.get
		wantRefused(t, p.Admit(t.Context(), request(Create, "pods", pod, nil)), 403, "web/default")
	})
}

func TestServiceAccountMirrorPod(t *testing.T) {
	p := &ServiceAccount{Get: world{}.get}
	mirror := metav1.ObjectMeta{Namespace: "web", Name: "m", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}
	mustAdmit(t, p, request(Create, "pods", &corev1.Pod{ObjectMeta: mirror}, nil))
	r := request(Create, "pods", &corev1.Pod{ObjectMeta: mirror, Spec: corev1.PodSpec{ServiceAccountName: "app"}}, nil)
	wantRefused(t, p.Validate(t.Context(), r), 403, "mirror pod")
}

func TestDefaultTolerationSeconds(t *testing.T) {
	seconds := int64(300)
	standard := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds}
	}
	notReady, unreachable := standard("node.kubernetes.io/not-ready"), standard("node.kubernetes.io/unreachable")
	for _, tc := range []struct{ have, want []corev1.Toleration }{
		{nil, []corev1.Toleration{notReady, unreachable}},
		{[]corev1.Toleration{unreachable}, []corev1.Toleration{unreachable, notReady}},
		{[]corev1.Toleration{{Operator: "Exists"}}, []corev1.Toleration{{Operator: "Exists"}}},
		{[]corev1.Toleration{{Key: notReady.Key, Operator: "Exists", Effect: "NoSchedule"}},
			[]corev1.Toleration{{Key: notReady.Key, Operator: "Exists", Effect: "NoSchedule"}, notReady, unreachable}},
	} {
		pod := &corev1.Pod{ObjectMeta: named("web", "x"), Spec: corev1.PodSpec{Tolerations: tc.have}}
		mustAdmit(t, &DefaultTolerationSeconds{}, request(Create, "pods", pod, nil))
		if diff := cmp.Diff(tc.want, pod.Spec.Tolerations); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestPriority(t *testing.T) {
	never := corev1.PreemptNever
	w := world{"priorityclasses//high": &schedulingv1.PriorityClass{ObjectMeta: named("", "high"), Value: 1000, PreemptionPolicy: &never}}
	p := &Priority{Get: w.get, List: w.list}
	admit := func(class string, given *int32) (*corev1.Pod, error) {
		pod := &corev1.Pod{ObjectMeta: named("web", "x"), Spec: corev1.PodSpec{PriorityClassName: class, Priority: given}}
		return pod, p.Admit(t.Context(), request(Create, "pods", pod, nil))
	}
	check := func(class, wantClass string, value int32, policy corev1.PreemptionPolicy) {
		t.Helper()
		pod, err := admit(class, nil)
		if err != nil {
			t.Fatal(err)
		}
		if *pod.Spec.Priority != value || *pod.Spec.PreemptionPolicy != policy || pod.Spec.PriorityClassName != wantClass {
			t.Errorf("%q: %d %s %s, want %d %s %s", class, *pod.Spec.Priority, *pod.Spec.PreemptionPolicy, pod.Spec.PriorityClassName, value, policy, wantClass)
		}
	}
	check("", "", 0, "PreemptLowerPriority")
	check("high", "high", 1000, "Never")
	check("system-node-critical", "system-node-critical", 2000001000, "PreemptLowerPriority")
	check("system-cluster-critical", "system-cluster-critical", 2000000000, "PreemptLowerPriority")
	_, err := admit("none", nil)
	wantRefused(t, err, 403, `pods "x" is forbidden: no PriorityClass with name none was found`)
	five := int32(5)
	_, err = admit("high", &five)
	wantRefused(t, err, 403, "the integer value of priority (5) must not be provided in pod spec")

	usual := &schedulingv1.PriorityClass{ObjectMeta: named("", "usual"), Value: 7, GlobalDefault: true}
	mustAdmit(t, p, request(Create, "priorityclasses.scheduling.k8s.io", usual, nil))
	w["priorityclasses//usual"] = usual
	check("", "usual", 7, "PreemptLowerPriority")
	second := &schedulingv1.PriorityClass{ObjectMeta: named("", "second"), GlobalDefault: true}
	wantRefused(t, p.Validate(t.Context(), request(Create, "priorityclasses.scheduling.k8s.io", second, nil)), 403, "PriorityClass usual is already marked as default")
	mustAdmit(t, p, request(Update, "priorityclasses.scheduling.k8s.io", usual, usual))

	old, _ := admit("high", nil)
	updated := &corev1.Pod{ObjectMeta: old.ObjectMeta, Spec: corev1.PodSpec{PriorityClassName: "high"}}
	mustAdmit(t, p, request(Update, "pods", updated, old))
	if updated.Spec.Priority == nil || *updated.Spec.Priority != 1000 {
		t.Errorf("an update lost the priority: %v", updated.Spec.Priority)
	}
}
