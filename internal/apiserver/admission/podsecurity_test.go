package admission

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"
)

// labelled is a namespace with pod security labels: "enforce=baseline".
func labelled(name string, labels ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: named("", name)}
	ns.Labels = map[string]string{}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		ns.Labels["pod-security.kubernetes.io/"+key] = value
	}
	return ns
}

func podOf(ns string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: named(ns, "x"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i"}}}}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// hostly breaks the baseline.
func hostly(pod *corev1.Pod) { pod.Spec.HostNetwork = true }

// restricted breaks nothing.
func restricted(pod *corev1.Pod) {
	yes, no := true, false
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
}

// warned runs the plugin and returns what the client is told.
func warned(t *testing.T, p Plugin, r *Request) string {
	t.Helper()
	var texts []string
	r.Warn = func(t ...string) { texts = append(texts, t...) }
	mustAdmit(t, p, r)
	return strings.Join(texts, "\n")
}

func TestPodSecurityOfPods(t *testing.T) {
	w := world{}
	for _, ns := range []*corev1.Namespace{
		labelled("free"), labelled("base", "enforce=baseline"), labelled("strict", "enforce=restricted"),
		labelled("warns", "warn=restricted"), labelled("both", "enforce=baseline", "warn=restricted"), labelled("broken", "enforce=bogus"),
		labelled("old", "enforce=restricted", "enforce-version=v1.19"),
	} {
		w["namespaces//"+ns.Name] = ns
	}
	p := &PodSecurity{Get: w.get, List: w.list}
	for _, tc := range []struct {
		name, refused, warns string
		r                    *Request
	}{
		{name: "no labels", r: request(Create, "pods", podOf("free", hostly), nil)},
		{name: "baseline kept", r: request(Create, "pods", podOf("base"), nil)},
		{name: "baseline broken", r: request(Create, "pods", podOf("base", hostly), nil),
			refused: `pods "x" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`},
		{name: "restricted broken", r: request(Create, "pods", podOf("strict"), nil),
			refused: `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)`},
		{name: "restricted kept", r: request(Create, "pods", podOf("strict", restricted), nil)},
		{name: "restricted as it was once", r: request(Create, "pods", podOf("old", restricted, func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.Capabilities = nil }), nil)},
		{name: "warned", r: request(Create, "pods", podOf("warns"), nil), warns: `would violate PodSecurity "restricted:latest": allowPrivilegeEscalation`},
		{name: "enforced and warned", r: request(Create, "pods", podOf("both"), nil), warns: `would violate PodSecurity "restricted:latest"`},
		{name: "labels that cannot be read", r: request(Create, "pods", podOf("broken"), nil), refused: `violates PodSecurity "restricted:latest"`},
		{name: "update of what does not matter", r: request(Update, "pods", podOf("base", hostly, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), podOf("base", hostly))},
		{name: "update of the image", r: request(Update, "pods", podOf("base", hostly, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }), podOf("base", hostly)), refused: "hostNetwork"},
		{name: "ephemeral container", r: request(Update, "pods", podOf("base", hostly, func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
		}), podOf("base", hostly)), refused: "hostNetwork"},
		{name: "delete", r: request(Delete, "pods", nil, podOf("base", hostly))},
		{name: "a template is warned of", r: request(Create, "deployments.apps", deploymentOf("warns"), nil), warns: `would violate PodSecurity "restricted:latest"`},
		{name: "a template is not refused, but warned of what is enforced", r: request(Create, "deployments.apps", deploymentOf("strict"), nil), warns: `would violate PodSecurity "restricted:latest"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.refused != "" {
				wantRefused(t, p.Validate(t.Context(), tc.r), 403, tc.refused)
				return
			}
			if got := warned(t, p, tc.r); !strings.HasPrefix(got, tc.warns) || tc.warns == "" && got != "" {
				t.Errorf("warned %q, want %q", got, tc.warns)
			}
		})
	}
	status := request(Update, "pods", podOf("base", hostly, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }), podOf("base", hostly))
	status.Subresource = "status"
	mustAdmit(t, p, status)
}

func deploymentOf(ns string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: named(ns, "d"), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: podOf(ns).Spec}}}
}

func TestPodSecurityExemptions(t *testing.T) {
	w := world{"namespaces//base": labelled("base", "enforce=baseline"), "namespaces//free": labelled("free")}
	p := &PodSecurity{Get: w.get, List: w.list, Config: PodSecurityConfig{
		Users: []string{"root"}, RuntimeClasses: []string{"vm"}, Namespaces: []string{"system"},
		Defaults: api.Policy{Enforce: api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}},
	}}
	wantRefused(t, p.Validate(t.Context(), request(Create, "pods", podOf("base", hostly), nil)), 403, "hostNetwork")
	wantRefused(t, p.Validate(t.Context(), request(Create, "pods", podOf("free", hostly), nil)), 403, "hostNetwork") // by default
	mustAdmit(t, p, request(Create, "pods", podOf("system", hostly), nil))
	mustAdmit(t, p, request(Create, "pods", podOf("base", hostly, func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("vm") }), nil))
	r := request(Create, "pods", podOf("base", hostly), nil)
	r.User.Name = "root"
	mustAdmit(t, p, r)
}

func TestPodSecurityOfNamespaces(t *testing.T) {
	w := world{}
	for i := range 4 {
		pod := podOf("web", hostly)
		pod.Name = fmt.Sprintf("web-%d", i)
		if i > 0 {
			pod.OwnerReferences = []metav1.OwnerReference{{Controller: new(true), UID: types.UID("set")}}
		}
		w["pods/web/"+pod.Name] = pod
	}
	lone := podOf("web", func(p *corev1.Pod) { p.Spec.HostPID = true })
	lone.Name = "lone"
	w["pods/web/lone"] = lone
	p := &PodSecurity{Get: w.get, List: w.list}
	update := func(now, old *corev1.Namespace) *Request { return request(Update, "namespaces", now, old) }

	wrong := labelled("web", "enforce=bogus", "warn-version=v1")
	err := p.Validate(t.Context(), request(Create, "namespaces", wrong, nil))
	wantRefused(t, err, 422, `Namespace "web" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "bogus": must be one of privileged, baseline, restricted`)
	wantRefused(t, p.Validate(t.Context(), update(wrong, labelled("web"))), 422, "bogus")
	if got := warned(t, p, update(wrong, wrong)); got != "" {
		t.Errorf("what was wrong before: warned %q", got)
	}

	// They all break the same rule: one line, with the first of the names.
	want := `existing pods in namespace "web" violate the new PodSecurity enforce level "baseline:latest"
lone (and 4 other pods): host namespaces`
	if got := warned(t, p, update(labelled("web", "enforce=baseline"), labelled("web"))); got != want {
		t.Errorf("warned %q, want %q", got, want)
	}
	for name, r := range map[string]*Request{
		"relaxed":       update(labelled("web", "enforce=baseline"), labelled("web", "enforce=restricted")),
		"privileged":    update(labelled("web"), labelled("web", "enforce=restricted")),
		"not changed":   update(labelled("web", "enforce=baseline", "warn=restricted"), labelled("web", "enforce=baseline")),
		"other created": request(Create, "namespaces", labelled("web", "enforce=baseline"), nil),
	} {
		if got := warned(t, p, r); got != "" {
			t.Errorf("%s: warned %q", name, got)
		}
	}
	for i := range podsChecked {
		pod := podOf("full")
		pod.Name = fmt.Sprintf("p-%05d", i)
		w["pods/full/"+pod.Name] = pod
	}
	w["pods/full/z"] = podOf("full", hostly)
	if got := warned(t, p, update(labelled("full", "enforce=baseline"), labelled("full"))); !strings.HasPrefix(got, "new PodSecurity enforce level only checked against the first ") {
		t.Errorf("warned %q of too many pods", got)
	}
}
