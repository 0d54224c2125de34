package apiserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

const (
	applyType  = "Content-Type: application/apply-patch+yaml"
	mergePatch = "Content-Type: application/merge-patch+json"
)

// managers writes who manages what, without the times:
// "kubectl Apply v1: f:data{.,f:k}".
func managers(t testing.TB, body string) []string {
	t.Helper()
	obj := decode[metav1.PartialObjectMetadata](t, body)
	var out []string
	for _, m := range obj.ManagedFields {
		if m.FieldsType != "FieldsV1" {
			t.Errorf("entry without type: %v", m)
		}
		line := fmt.Sprintf("%s %s %s", m.Manager, m.Operation, m.APIVersion)
		if m.Subresource != "" {
			line += " " + m.Subresource
		}
		var set map[string]any
		if err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &set); err != nil {
			t.Fatal(err)
		}
		out = append(out, line+": "+brief(set))
	}
	return out
}

func brief(set map[string]any) string {
	data, _ := json.Marshal(set)
	s := string(data[1 : len(data)-1])
	for _, r := range [][2]string{{`\"`, `'`}, {`":{}`, ``}, {`":{`, `{`}, {`"`, ``}} {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	return s
}

func wantManagers(t testing.TB, body string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, managers(t, body)); diff != "" {
		t.Errorf("managed fields (-want +got):\n%s", diff)
	}
}

func TestWritesAreTracked(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	agent := func(name string) string { return "User-Agent: " + name }

	body := w.want(201, "POST", cmPath, `{"metadata":{"name":"a","labels":{"x":"1"}},"data":{"k":"v"}}`, agent("curl/7.0 (linux)"))
	wantManagers(t, body, "curl Update v1: f:data{.,f:k},f:metadata{f:labels{.,f:x}}")
	rv := decode[corev1.ConfigMap](t, body).ResourceVersion

	body = w.want(200, "PATCH", cmPath+"/a?fieldManager=second", `{"data":{"k":"w","l":"v"}}`, mergePatch)
	wantManagers(t, body,
		"curl Update v1: f:data,f:metadata{f:labels{.,f:x}}",
		"second Update v1: f:data{f:k,f:l}")
	if got := decode[corev1.ConfigMap](t, body).ResourceVersion; got == rv {
		t.Error("a change did not count")
	}

	// The same again is no change.
	again := w.want(200, "PATCH", cmPath+"/a?fieldManager=third", `{"data":{"k":"w"}}`, mergePatch)
	if diff := cmp.Diff(body, again); diff != "" {
		t.Errorf("a patch that changes nothing wrote:\n%s", diff)
	}

	// A client that has never heard of managed fields does not lose them.
	body = w.want(200, "PUT", cmPath+"/a", `{"metadata":{"name":"a"},"data":{"k":"w"}}`, agent("old"))
	wantManagers(t, body, "curl Update v1: f:data", "second Update v1: f:data{f:k}")

	// One that empties them starts afresh.
	body = w.want(200, "PATCH", cmPath+"/a", `{"metadata":{"managedFields":[{}]}}`, mergePatch, agent("new"))
	wantManagers(t, body)
	body = w.want(200, "PATCH", cmPath+"/a", `{"data":{"n":"1"}}`, mergePatch, agent("new"))
	wantManagers(t, body)
}

func TestSubresourcesAreTracked(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	body := w.want(201, "POST", deployPath+"?fieldManager=m", deployment)
	if got := managers(t, body); len(got) != 1 || strings.Contains(got[0], "f:status") || !strings.Contains(got[0], "k:{'name':'c'}{.,f:image") {
		t.Errorf("after create: %q", got)
	}
	body = w.want(200, "PATCH", deployPath+"/d/status?fieldManager=s", `{"metadata":{"labels":{"a":"b"}},"spec":{"replicas":7},"status":{"replicas":2}}`, mergePatch)
	if got := managers(t, body); len(got) != 2 || got[1] != "s Update apps/v1 status: f:status{f:replicas}" {
		t.Errorf("after status: %q", got)
	}
	if d := decode[appsv1.Deployment](t, body); *d.Spec.Replicas != 1 || d.Status.Replicas != 2 {
		t.Errorf("status wrote %+v", d)
	}
}

const (
	deployPath = "/apis/apps/v1/namespaces/default/deployments"
	deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
)

func TestApply(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	yaml := func(data string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\ndata:\n" + data
	}
	one, two := cmPath+"/a?fieldManager=one", cmPath+"/a?fieldManager=two"

	w.want(422, "PATCH", cmPath+"/a", yaml("  k: v\n"), applyType)
	body := w.want(201, "PATCH", one, yaml("  k: v\n  l: v\n"), applyType)
	wantManagers(t, body, "one Apply v1: f:data{f:k,f:l}")

	if again := w.want(200, "PATCH", one, yaml("  k: v\n  l: v\n"), applyType); again != body {
		t.Errorf("the same apply wrote:\n%s", cmp.Diff(body, again))
	}
	body = w.want(200, "PATCH", two, yaml("  k: v\n"), applyType) // they agree
	// An apply that changes nothing has no time, and is sorted first.
	wantManagers(t, body, "two Apply v1: f:data{f:k}", "one Apply v1: f:data{f:k,f:l}")

	refusal := decode[metav1.Status](t, w.want(409, "PATCH", two, yaml("  k: w\n  l: w\n"), applyType))
	want := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   "Failure", Reason: "Conflict", Code: 409,
		Message: "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.k\n- .data.l",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			{Type: "FieldManagerConflict", Message: `conflict with "one"`, Field: ".data.k"},
			{Type: "FieldManagerConflict", Message: `conflict with "one"`, Field: ".data.l"},
		}},
	}
	if diff := cmp.Diff(want, *refusal); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}

	body = w.want(200, "PATCH", two+"&force=true", yaml("  k: w\n"), applyType)
	wantManagers(t, body, "one Apply v1: f:data{f:l}", "two Apply v1: f:data{f:k}")

	// What a manager no longer applies, and nobody else wants, goes.
	body = w.want(200, "PATCH", one, yaml("  m: v\n"), applyType)
	wantManagers(t, body, "one Apply v1: f:data{f:m}", "two Apply v1: f:data{f:k}")
	if diff := cmp.Diff(map[string]string{"k": "w", "m": "v"}, decode[corev1.ConfigMap](t, body).Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

func TestApplyPreconditions(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	path := cmPath + "/a?fieldManager=one"
	body := func(meta string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"` + meta + `},"data":{"k":"v"}}`
	}
	got := decode[metav1.Status](t, w.want(409, "PATCH", path, body(`,"uid":"1"`), applyType))
	if want := `Operation cannot be fulfilled on configmaps "a": uid mismatch: the provided object specified uid 1, and no existing object was found`; got.Message != want {
		t.Errorf("got %q, want %q", got.Message, want)
	}
	w.want(201, "PATCH", path+"&dryRun=All", body(""), applyType)
	w.want(404, "GET", cmPath+"/a", "")
	w.want(201, "PATCH", path, body(""), applyType)
	w.want(409, "PATCH", path, body(`,"uid":"1"`), applyType)
	w.want(409, "PATCH", path, body(`,"resourceVersion":"1"`), applyType)
	w.want(400, "PATCH", path, body(`,"managedFields":[{}]`), applyType)
	w.want(400, "PATCH", path, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`, applyType)
	w.want(400, "PATCH", path, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, applyType)
	w.want(400, "PATCH", path, `[]`, applyType)
	w.want(400, "PATCH", path, "a: [", applyType)
	w.want(500, "PATCH", path, body(`,"nope":1`), applyType)
	w.want(415, "PATCH", path, body(""), "Content-Type: application/apply-patch+json")
	w.want(404, "PATCH", cmPath+"/a/status?fieldManager=one", body(""), applyType)
}

func TestScaleIsTracked(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	owners := func() []string {
		var out []string
		for _, line := range managers(t, w.want(200, "GET", deployPath+"/d", "")) {
			if strings.Contains(line, "f:replicas") {
				who, _, _ := strings.Cut(line, ":")
				out = append(out, who)
			}
		}
		return out
	}
	check := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, owners()); diff != "" {
			t.Errorf("who owns replicas (-want +got):\n%s", diff)
		}
	}
	config := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},
"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	w.want(201, "PATCH", deployPath+"/d?fieldManager=m", config, applyType)
	check("m Apply apps/v1")

	body := w.want(200, "PATCH", deployPath+"/d/scale?fieldManager=s", `{"spec":{"replicas":5}}`, mergePatch)
	wantManagers(t, body)
	check("s Update apps/v1 scale")
	w.want(409, "PATCH", deployPath+"/d?fieldManager=m", config, applyType)

	scale := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":%d}}`
	w.want(409, "PATCH", deployPath+"/d/scale?fieldManager=a", fmt.Sprintf(scale, 6), applyType)
	w.want(200, "PATCH", deployPath+"/d/scale?fieldManager=a&force=true", fmt.Sprintf(scale, 6), applyType)
	check("a Apply apps/v1 scale")
	w.want(200, "PUT", deployPath+"/d/scale?fieldManager=p", fmt.Sprintf(scale, 7))
	check("p Update apps/v1 scale")
}

func TestClientSideApplyHandsOver(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	last := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"k":"v","l":"v"}}`
	obj := configMap("a", "k", "v", "l", "v")
	obj.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": last}
	w.want(201, "POST", cmPath+"?fieldManager=kubectl-client-side-apply", toJSON(t, obj))

	// kubectl takes over what client-side apply set, without a conflict, and
	// keeps the annotation true for those who still apply that way.
	next := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"k":"w","l":"v"}}`
	w.want(409, "PATCH", cmPath+"/a?fieldManager=other", next, applyType)
	body := w.want(200, "PATCH", cmPath+"/a?fieldManager=kubectl", next, applyType)
	cm := decode[corev1.ConfigMap](t, body)
	if cm.Data["k"] != "w" {
		t.Errorf("data is %v", cm.Data)
	}
	got := decode[corev1.ConfigMap](t, cm.Annotations["kubectl.kubernetes.io/last-applied-configuration"])
	if diff := cmp.Diff(map[string]string{"k": "w", "l": "v"}, got.Data); diff != "" {
		t.Errorf("the annotation says (-want +got):\n%s", diff)
	}
}

func TestUpdateManagersAreCapped(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	body := w.want(201, "POST", cmPath+"?fieldManager=m0", `{"metadata":{"name":"a"},"data":{"k0":"v"}}`)
	for i := range 12 {
		body = w.want(200, "PATCH", cmPath+fmt.Sprintf("/a?fieldManager=m%d", i+1), fmt.Sprintf(`{"data":{"k%d":"v"}}`, i+1), mergePatch)
	}
	got := decode[corev1.ConfigMap](t, body).ManagedFields
	ancient := 0
	for _, m := range got {
		if m.Manager == "ancient-changes" {
			ancient++
		}
	}
	if len(got) != 10 || ancient != 1 {
		t.Errorf("%d managers, %d of them ancient", len(got), ancient)
	}
}
