package apiserver_test

import (
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
	jsonPatch      = "Content-Type: application/json-patch+json"
	strategicPatch = "Content-Type: application/strategic-merge-patch+json"
)

// TestPatchRefusals: who is to blame for a patch that cannot be done, in
// upstream's words.
func TestPatchRefusals(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	w.want(201, "POST", cmPath, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
	w.want(201, "POST", deployPath, deployment)
	many := "[" + strings.Repeat(`{"op":"test","path":"/data/k","value":"v"},`, 10000) + `{"op":"test","path":"/data/k","value":"v"}]`
	for _, c := range []struct {
		name, header, path, body string
		code                     int32
		message                  string
	}{
		{"no JSON", mergePatch, cmPath + "/a", `{`, 400, "invalid JSON patch"},
		{"no object", mergePatch, cmPath + "/a", `[]`, 400, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{"no list", jsonPatch, cmPath + "/a", `{}`, 400, "error decoding patch: json: cannot unmarshal object into Go value of type []"},
		{"too many", jsonPatch, cmPath + "/a", many, 413, "The allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"test fails", jsonPatch, cmPath + "/a", `[{"op":"test","path":"/data/k","value":"w"}]`, 422, "the server rejected our request due to an error in our request"},
		{"nothing there", jsonPatch, cmPath + "/a", `[{"op":"remove","path":"/data/x"}]`, 422, "the server rejected our request due to an error in our request"},
		{"unknown operation", jsonPatch, cmPath + "/a", `[{"op":"frob","path":"/data/x"}]`, 422, "the server rejected our request due to an error in our request"},
		{"force", mergePatch, cmPath + "/a?force=true", `{}`, 422, `PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`},
		{"manager", mergePatch, cmPath + "/a?fieldManager=" + strings.Repeat("m", 129), `{}`, 422, `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes`},
		{"not there", mergePatch, cmPath + "/b", `{}`, 404, `configmaps "b" not found`},
		{"old version", mergePatch, cmPath + "/a", `{"metadata":{"resourceVersion":"1"}}`, 409, "Operation cannot be fulfilled on configmaps \"a\": the object has been modified"},
		{"another name", mergePatch, cmPath + "/a", `{"metadata":{"name":"b"}}`, 400, "the name of the object (b) does not match the name on the URL (a)"},
		{"no merge key", strategicPatch, deployPath + "/d", `{"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}}`, 500, "map: map[image:x] does not contain declared merge key: name"},
		{"retain keys", strategicPatch, deployPath + "/d", `{"spec":{"strategy":{"$retainKeys":["type"],"rollingUpdate":{}}}}`, 400, "invalid patch format of retainKeys"},
		{"strict", mergePatch, cmPath + "/a?fieldValidation=Strict", `{"x":1,"data":{"k":"1","k":"2"}}`, 422, `duplicate field "data.k", unknown field "x"`},
		{"strict operation", jsonPatch, cmPath + "/a?fieldValidation=Strict", `[{"op":"test","path":"/data/k","value":"v","nope":1}]`, 422, `json patch unknown field "[0].nope"`},
		{"strict strategic", strategicPatch, deployPath + "/d?fieldValidation=Strict", `{"spec":{"x":1}}`, 422, `unknown field "spec.x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := w.do("PATCH", c.path, c.body, c.header)
			got := decode[metav1.Status](t, body)
			if resp.StatusCode != int(c.code) || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %d %s\nwant %d %s", resp.StatusCode, got.Message, c.code, c.message)
			}
		})
	}
}

// TestPatchWarnings: what a strict reading would refuse is said in headers.
func TestPatchWarnings(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	w.want(201, "POST", cmPath, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
	w.want(201, "POST", deployPath, deployment)
	for _, c := range []struct{ name, header, path, body, warnings string }{
		{"merge", mergePatch, cmPath + "/a", `{"x":1,"data":{"k":"1","k":"2"}}`, `duplicate field "data.k"|unknown field "x"`},
		{"operation", jsonPatch, cmPath + "/a", `[{"op":"add","path":"/y","value":"v","nope":1}]`, `json patch unknown field "[0].nope"|unknown field "y"`},
		{"strategic", strategicPatch, deployPath + "/d", `{"spec":{"x":1,"paused":true,"paused":false}}`, `duplicate field "spec.paused"|unknown field "spec.x"`},
		{"apply", applyType, cmPath + "/a?fieldManager=m&force=true", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: a\n  k: b\n", `error converting YAML to JSON: yaml: unmarshal errors: line 6: key "k" already set in map`},
		{"ignored", mergePatch, cmPath + "/a?fieldValidation=Ignore", `{"x":1,"data":{"k":"1","k":"2"}}`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := w.do("PATCH", c.path, c.body, c.header)
			if resp.StatusCode != 200 {
				t.Fatal(body)
			}
			var got []string
			for _, h := range resp.Header["Warning"] {
				h = strings.TrimSuffix(strings.TrimPrefix(h, `299 - "`), `"`)
				got = append(got, strings.Join(strings.Fields(strings.ReplaceAll(strings.ReplaceAll(h, `\"`, `"`), `\n`, " ")), " "))
			}
			if diff := cmp.Diff(c.warnings, strings.Join(got, "|")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
	// An apply that is strict does not happen.
	w.want(400, "PATCH", cmPath+"/a?fieldManager=m&force=true&fieldValidation=Strict", "apiVersion: v1\nkind: ConfigMap\ndata:\n  k: a\n  k: b\n", applyType)
}

// TestStrategicDirectives: the directives of a strategic merge patch.
// https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
func TestStrategicDirectives(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	w.want(201, "POST", deployPath, deployment)
	path := deployPath + "/d"
	w.want(200, "PATCH", path, `{"metadata":{"finalizers":["a/x","a/y"]}}`, strategicPatch)
	containers := func(d *appsv1.Deployment) (out []string) {
		for _, c := range d.Spec.Template.Spec.Containers {
			out = append(out, c.Name+"="+c.Image)
		}
		return out
	}
	for _, step := range []struct{ name, patch, want string }{
		{"by key", `{"spec":{"template":{"spec":{"containers":[{"name":"e","image":"j"}]}}}}`, `[e=j c=i] [a/x a/y] RollingUpdate`},
		{"in order", `{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"c"},{"name":"e"}]}}}}`, `[c=i e=j] [a/x a/y] RollingUpdate`},
		{"delete", `{"spec":{"template":{"spec":{"containers":[{"name":"e","$patch":"delete"}]}}}}`, `[c=i] [a/x a/y] RollingUpdate`},
		{"from a set", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a/x"]}}`, `[c=i] [a/y] RollingUpdate`},
		{"into a set", `{"metadata":{"finalizers":["a/z"]}}`, `[c=i] [a/z a/y] RollingUpdate`},
		{"retain", `{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}`, `[c=i] [a/z a/y] Recreate`},
		{"replace", `{"spec":{"template":{"spec":{"containers":[{"name":"f","image":"k"},{"$patch":"replace"}]}}}}`, `[f=k] [a/z a/y] Recreate`},
	} {
		d := decode[appsv1.Deployment](t, w.want(200, "PATCH", path, step.patch, strategicPatch))
		if got := fmt.Sprint(containers(d), " ", d.Finalizers, " ", d.Spec.Strategy.Type); got != step.want {
			t.Errorf("%s: got %s, want %s", step.name, got, step.want)
		}
	}
}

// TestDryRunStoresNothing: every verb is checked and answered as if it were
// done, and nothing is.
func TestDryRunStoresNothing(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	w.want(201, "POST", cmPath, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
	w.want(201, "POST", deployPath, deployment)
	w.want(201, "POST", "/api/v1/namespaces/default/pods", toJSON(t, pod("p", "")))
	before := h.Store.Revision()
	for _, c := range []struct {
		code                       int
		method, path, body, header string
	}{
		{201, "POST", cmPath + "?dryRun=All", `{"metadata":{"generateName":"b-"}}`, ""},
		{409, "POST", cmPath + "?dryRun=All", `{"metadata":{"name":"a"}}`, ""},
		{422, "POST", cmPath + "?dryRun=All", `{"metadata":{"name":"A"}}`, ""},
		{422, "POST", cmPath + "?dryRun=Some", `{"metadata":{"name":"b"}}`, ""},
		{200, "PUT", cmPath + "/a?dryRun=All", `{"metadata":{"name":"a"},"data":{"k":"w"}}`, ""},
		{200, "PATCH", cmPath + "/a?dryRun=All", `{"data":{"k":"w"}}`, mergePatch},
		{200, "PATCH", cmPath + "/a?dryRun=All&fieldManager=m&force=true", `{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"w"}}`, applyType},
		{201, "PATCH", cmPath + "/b?dryRun=All&fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, applyType},
		{200, "PATCH", deployPath + "/d/scale?dryRun=All", `{"spec":{"replicas":4}}`, mergePatch},
		{200, "PATCH", deployPath + "/d/status?dryRun=All", `{"status":{"replicas":4}}`, mergePatch},
		{201, "POST", "/api/v1/namespaces/default/pods/p/binding?dryRun=All", `{"target":{"name":"n"}}`, ""},
		{201, "POST", "/api/v1/namespaces/default/pods/p/eviction?dryRun=All", `{"metadata":{"name":"p"}}`, ""},
		{201, "POST", "/api/v1/namespaces/default/pods/p/eviction", `{"metadata":{"name":"p"},"deleteOptions":{"dryRun":["All"]}}`, ""},
		{200, "DELETE", cmPath + "/a?dryRun=All", "", ""},
		{200, "DELETE", cmPath + "/a", `{"dryRun":["All"]}`, ""},
		{200, "DELETE", cmPath + "?dryRun=All", "", ""},
	} {
		headers := []string{}
		if c.header != "" {
			headers = append(headers, c.header)
		}
		body := w.want(c.code, c.method, c.path, c.body, headers...)
		if strings.Contains(c.body, "generateName") && !strings.HasPrefix(decode[corev1.ConfigMap](t, body).Name, "b-") {
			t.Errorf("no name was made: %s", body)
		}
	}
	if after := h.Store.Revision(); after != before {
		t.Errorf("the store went from %d to %d", before, after)
	}
}
