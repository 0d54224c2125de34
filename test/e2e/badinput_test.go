package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/kubeconfig"
	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// raw sends bytes as they are, as the administrator, and returns the Status.
type raw struct {
	t      *testing.T
	base   string
	client *http.Client
}

func newRaw(t *testing.T, c *harness.Cluster) *raw {
	t.Helper()
	cfg, err := kubeconfig.Load(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &raw{t, cfg.Host, client}
}

func (r *raw) send(method, path, contentType string, body []byte) (int, metav1.Status) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.base+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var status metav1.Status
	if err := json.Unmarshal(data, &status); err != nil {
		r.t.Fatalf("%s %s: the answer is no Status: %v: %.300s", method, path, err, data)
	}
	return res.StatusCode, status
}

// refusal is what a bad request must get: upstream's code, reason, field path
// and words.
type refusal struct {
	code    int
	reason  metav1.StatusReason
	field   string // of one of the causes; "" is none in particular
	message string // a part of it
}

func (r *raw) refused(method, path, contentType string, body []byte, want refusal) {
	r.t.Helper()
	code, s := r.send(method, path, contentType, body)
	if code != want.code || s.Reason != want.reason || !strings.Contains(s.Message, want.message) {
		r.t.Errorf("%d %s %q, want %d %s with %q", code, s.Reason, s.Message, want.code, want.reason, want.message)
	}
	if want.field == "" {
		return
	}
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			if cause.Field == want.field {
				return
			}
		}
	}
	r.t.Errorf("no cause names the field %s: %+v", want.field, s.Details)
}

// TestBadRequests: each kind of bad input gets upstream's status code, reason
// and field path.
func TestBadRequests(t *testing.T) {
	c := harness.Start(t, "--nodes", "none")
	c.Apply(webManifest("web", "sim:1", 1))
	const jsonType, yamlType = "application/json", "application/yaml"
	const cms, deploys = "/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/deployments"
	deployment := func(spec string) []byte {
		return []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"bad"},"spec":` + spec + `}`)
	}
	const template = `"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	big := func(n int) []byte {
		return []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big"},"data":{"d":"` + strings.Repeat("x", n) + `"}}`)
	}
	for name, test := range map[string]struct {
		method, path, contentType string
		body                      []byte
		want                      refusal
	}{
		"malformed JSON":       {"POST", cms, jsonType, []byte(`{"apiVersion":"v1","kind":`), refusal{400, metav1.StatusReasonBadRequest, "", "unexpected end of JSON input"}},
		"malformed YAML":       {"POST", cms, yamlType, []byte("apiVersion: v1\nkind: ConfigMap\n\tx: ["), refusal{400, metav1.StatusReasonBadRequest, "", "yaml"}},
		"wrong type":           {"POST", deploys, jsonType, deployment(`{"replicas":"three"}`), refusal{400, metav1.StatusReasonBadRequest, "", "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"}},
		"unknown field":        {"POST", deploys + "?fieldValidation=Strict", jsonType, deployment(`{"replicsa":3,"selector":{"matchLabels":{"app":"a"}},` + template + `}`), refusal{400, metav1.StatusReasonBadRequest, "", `strict decoding error: unknown field "spec.replicsa"`}},
		"duplicate field":      {"POST", cms + "?fieldValidation=Strict", jsonType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"}}`), refusal{400, metav1.StatusReasonBadRequest, "", `duplicate field "metadata.name"`}},
		"bad name":             {"POST", cms, jsonType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"Not_A_Name"}}`), refusal{422, metav1.StatusReasonInvalid, "metadata.name", "a lowercase RFC 1123 subdomain must consist of"}},
		"no name":              {"POST", cms, jsonType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`), refusal{422, metav1.StatusReasonInvalid, "metadata.name", "name or generateName is required"}},
		"wrong kind":           {"POST", cms, jsonType, []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`), refusal{400, metav1.StatusReasonBadRequest, "", "Secret in version \"v1\" cannot be handled as a ConfigMap"}},
		"other namespace":      {"POST", cms, jsonType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"other"}}`), refusal{400, metav1.StatusReasonBadRequest, "", "the namespace of the provided object does not match the namespace sent on the request"}},
		"selector":             {"POST", deploys, jsonType, deployment(`{"selector":{"matchLabels":{"app":"b"}},` + template + `}`), refusal{422, metav1.StatusReasonInvalid, "spec.template.metadata.labels", "`selector` does not match template `labels`"}},
		"no selector":          {"POST", deploys, jsonType, deployment(`{` + template + `}`), refusal{422, metav1.StatusReasonInvalid, "spec.selector", "Required value"}},
		"negative replicas":    {"POST", deploys, jsonType, deployment(`{"replicas":-1,"selector":{"matchLabels":{"app":"a"}},` + template + `}`), refusal{422, metav1.StatusReasonInvalid, "spec.replicas", "must be greater than or equal to 0"}},
		"no containers":        {"POST", deploys, jsonType, deployment(`{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{}}}`), refusal{422, metav1.StatusReasonInvalid, "spec.template.spec.containers", "Required value"}},
		"immutable selector":   {"PATCH", deploys + "/web", "application/merge-patch+json", []byte(`{"spec":{"selector":{"matchLabels":{"x":"y"}}}}`), refusal{422, metav1.StatusReasonInvalid, "spec.selector", "field is immutable"}},
		"stale":                {"PUT", deploys + "/web", jsonType, []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","resourceVersion":"1"},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`), refusal{409, metav1.StatusReasonConflict, "", "the object has been modified; please apply your changes to the latest version and try again"}},
		"4 MiB":                {"POST", cms, jsonType, big(4 << 20), refusal{413, metav1.StatusReasonRequestEntityTooLarge, "", "limit is 3145728"}},
		"data too long":        {"POST", cms, jsonType, big(1<<20 + 1), refusal{422, metav1.StatusReasonInvalid, "", "Too long: may not be more than 1048576 bytes"}},
		"exists":               {"POST", "/api/v1/namespaces", jsonType, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}`), refusal{409, metav1.StatusReasonAlreadyExists, "", `namespaces "default" already exists`}},
		"not there":            {"GET", cms + "/nope", jsonType, nil, refusal{404, metav1.StatusReasonNotFound, "", `configmaps "nope" not found`}},
		"no namespace":         {"POST", "/api/v1/namespaces/nope/configmaps", jsonType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`), refusal{404, metav1.StatusReasonNotFound, "", `namespaces "nope" not found`}},
		"no such kind":         {"GET", "/apis/apps/v1/namespaces/default/nopes", jsonType, nil, refusal{404, metav1.StatusReasonNotFound, "", "the server could not find the requested resource"}},
		"media type":           {"POST", cms, "text/plain", []byte(`hello`), refusal{415, metav1.StatusReasonUnsupportedMediaType, "", "the body of the request was in an unknown format"}},
		"patch type":           {"PATCH", deploys + "/web", "application/json", []byte(`{}`), refusal{415, metav1.StatusReasonUnsupportedMediaType, "", "the body of the request was in an unknown format"}},
		"label selector":       {"GET", cms + "?labelSelector=a%20b%20c", jsonType, nil, refusal{400, metav1.StatusReasonBadRequest, "", "unable to parse requirement"}},
		"field selector":       {"GET", cms + "?fieldSelector=data.x%3Dy", jsonType, nil, refusal{400, metav1.StatusReasonBadRequest, "", "is not a known field selector"}},
		"future version":       {"GET", cms + "?resourceVersion=999999999", jsonType, nil, refusal{504, metav1.StatusReasonTimeout, "", "Too large resource version"}},
		"service without port": {"POST", "/api/v1/namespaces/default/services", jsonType, []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"selector":{"a":"b"}}}`), refusal{422, metav1.StatusReasonInvalid, "spec.ports", "Required value"}},
		"cluster IP":           {"POST", "/api/v1/namespaces/default/services", jsonType, []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"clusterIP":"192.0.2.1","ports":[{"port":80}]}}`), refusal{422, metav1.StatusReasonInvalid, "spec.clusterIPs", "not in the valid range"}},
	} {
		t.Run(name, func(t *testing.T) {
			newRaw(t, c).refused(test.method, test.path, test.contentType, test.body, test.want)
		})
	}

	t.Run("kubectl says it in its words", func(t *testing.T) {
		contains(t, "apply", fails(c, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {replicsa: 1}\n", "apply", "-f", "-"), "unknown field \"spec.replicsa\"")
		contains(t, "create", fails(c, "apiVersion: v1\nkind: [", "create", "-f", "-"), "yaml")
		contains(t, "get", fails(c, "", "get", "pod", "nope"), `Error from server (NotFound): pods "nope" not found`)
	})
	t.Run("who may come in", func(t *testing.T) {
		anonymous := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		r := newRaw(t, c)
		r.client = anonymous
		r.refused("GET", "/api/v1/namespaces/default/pods", jsonType, nil, refusal{403, metav1.StatusReasonForbidden, "", `pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "default"`})
		req, _ := http.NewRequest("GET", r.base+"/api/v1/pods", nil)
		req.Header.Set("Authorization", "Bearer nonsense")
		res, err := anonymous.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 401 {
			t.Errorf("a bad token got %d, want 401", res.StatusCode)
		}
		for _, path := range []string{"/livez", "/readyz", "/version"} {
			res, err := anonymous.Get(r.base + path)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 200 {
				t.Errorf("anonymous %s got %d, want 200", path, res.StatusCode)
			}
		}
	})
}

// TestBadPods: what cannot run says so as upstream does.
func TestBadPods(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("web:1", harness.Web(t, "v1"))
	c := harness.Start(t)
	pod := func(name, spec string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {terminationGracePeriodSeconds: 0, containers: [{name: a, %s}]}\n---\n", name, spec)
	}
	c.Apply(pod("no-image", `image: "`+registry.Host+`/nope:1"`) +
		pod("never", `image: "`+registry.Host+`/absent:1", imagePullPolicy: Never`) +
		pod("bad-name", `image: "UPPER CASE"`) +
		pod("no-command", `image: "`+image+`", command: [/nope]`) +
		pod("crash", `image: "`+image+`", command: [sh, -c, exit 3]`) +
		pod("no-config", `image: "`+image+`", env: [{name: A, valueFrom: {configMapKeyRef: {name: nope, key: a}}}]`) +
		pod("oom", `image: "`+image+`", command: [sh, -c, "x=a; while true; do x=$x$x; done"], resources: {limits: {memory: 16Mi}}`))
	const waiting, last = "{.status.containerStatuses[0].state.waiting.reason}", "{.status.containerStatuses[0].lastState.terminated.reason}:{.status.containerStatuses[0].lastState.terminated.exitCode}"
	for name, wants := range map[string][]string{
		"no-image":   {waiting, "ImagePullBackOff"},
		"never":      {waiting, "ErrImageNeverPull"},
		"bad-name":   {waiting, "InvalidImageName"},
		"no-command": {waiting + " " + last, "CrashLoopBackOff StartError:128"},
		"crash":      {waiting + " " + last, "CrashLoopBackOff Error:3"},
		"no-config":  {waiting, "CreateContainerConfigError"},
		"oom":        {waiting + " " + last, "CrashLoopBackOff OOMKilled:137"},
	} {
		c.Eventually(2*time.Minute, name+" is "+wants[1], func() error {
			if got := c.Kubectl("get", "pod", name, "-o", "jsonpath="+wants[0]); got != wants[1] {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
	}
	c.Shows([]string{"ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"}, "get", "pods") // but for the moments in which they try again
	c.Shows([]string{"Back-off restarting failed container a in pod crash_default"}, "describe", "pod", "crash")
}
