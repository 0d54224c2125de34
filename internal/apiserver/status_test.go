package apiserver_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

// TestStatuses sends bad requests and compares the Status of each answer with
// testdata/statuses.txt, which was reviewed against what Kubernetes says.
func TestStatuses(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	w.want(201, "POST", "/api/v1/namespaces/default/configmaps", toJSON(t, configMap("there", "k", "v")))
	w.want(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"ending"}}`)
	w.want(200, "DELETE", "/api/v1/namespaces/ending", "")
	w.want(201, "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"bound"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`)
	const (
		cms = "/api/v1/namespaces/default/configmaps"
		cm  = cms + "/there"
	)
	big := `{"metadata":{"name":"big"},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"E","value":"` + strings.Repeat("x", 1<<21) + `"}]}]}}`
	huge := `{"metadata":{"name":"huge"},"data":{"k":"` + strings.Repeat("x", 4<<20) + `"}}`
	doubling := `[{"op":"add","path":"/data","value":{"k":"` + strings.Repeat("x", 1<<20) + `"}}` +
		strings.Repeat(`,{"op":"copy","from":"/data","path":"/data/x"}`, 40) + `]`
	for _, c := range []struct{ name, method, path, body, header string }{
		{"malformed JSON", "POST", cms, `{"metadata":`, ""},
		{"no JSON", "POST", cms, `hello, this is some text of no use at all`, ""},
		{"empty body", "POST", cms, ` `, ""},
		{"malformed YAML", "POST", cms, "a: b: c", "Content-Type: application/yaml"},
		{"wrong kind", "POST", cms, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"}}`, ""},
		{"wrong version", "POST", cms, `{"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"x"}}`, ""},
		{"wrong type", "POST", cms, `{"metadata":{"name":"x"},"data":{"k":1}}`, ""},
		{"unknown field, strict", "POST", cms + "?fieldValidation=Strict", `{"metadata":{"name":"x"},"dada":{"k":"v"}}`, ""},
		{"duplicate field, strict", "POST", cms + "?fieldValidation=Strict", `{"metadata":{"name":"x","name":"y"}}`, ""},
		{"unknown fieldValidation", "POST", cms + "?fieldValidation=Maybe", `{"metadata":{"name":"x"}}`, ""},
		{"unknown dryRun", "POST", cms + "?dryRun=Some", `{"metadata":{"name":"x"}}`, ""},
		{"no name", "POST", cms, `{"metadata":{}}`, ""},
		{"bad name", "POST", cms, `{"metadata":{"name":"Bad_Name"}}`, ""},
		{"bad generateName", "POST", cms, `{"metadata":{"name":"good","generateName":"Bad_"}}`, ""},
		{"bad label and finalizer", "POST", cms, `{"metadata":{"name":"x","labels":{"a b":"c d"},"finalizers":["nope"]}}`, ""},
		{"other namespace", "POST", cms, `{"metadata":{"name":"x","namespace":"other"}}`, ""},
		{"resourceVersion on create", "POST", cms, `{"metadata":{"name":"x","resourceVersion":"1"}}`, ""},
		{"exists", "POST", cms, `{"metadata":{"name":"there"}}`, ""},
		{"missing namespace", "POST", "/api/v1/namespaces/nowhere/configmaps", `{"metadata":{"name":"x"}}`, ""},
		{"ending namespace", "POST", "/api/v1/namespaces/ending/configmaps", `{"metadata":{"name":"x"}}`, ""},
		{"too large object", "POST", "/api/v1/namespaces/default/pods", big, ""},
		{"too large body", "POST", cms, huge, ""},
		{"unknown content type", "POST", cms, `{}`, "Content-Type: text/html"},
		{"unknown accept", "GET", cm, "", "Accept: text/html"},
		{"YAML watch", "GET", cms + "?watch=1", "", "Accept: application/yaml"},
		{"create without namespace", "POST", "/api/v1/configmaps", `{"metadata":{"name":"x"}}`, ""},
		{"create on a name", "POST", cm, `{"metadata":{"name":"there"}}`, ""},
		{"no such method", "OPTIONS", cms, "", ""},
		{"missing", "GET", cms + "/missing", "", ""},
		{"no such resource", "GET", "/api/v1/namespaces/default/gizmos", "", ""},
		{"no such subresource", "GET", cm + "/status", "", ""},
		{"namespaced without namespace", "GET", "/api/v1/configmaps/there", "", ""},
		{"update missing", "PUT", cms + "/missing", `{"metadata":{"name":"missing"}}`, ""},
		{"update other name", "PUT", cm, `{"metadata":{"name":"other"}}`, ""},
		{"update no name", "PUT", cm, `{"metadata":{}}`, ""},
		{"update other namespace", "PUT", cm, `{"metadata":{"name":"there","namespace":"other"}}`, ""},
		{"patch other name", "PATCH", cm, `{"metadata":{"name":"other"}}`, "Content-Type: application/merge-patch+json"},
		{"update stale", "PUT", cm, `{"metadata":{"name":"there","resourceVersion":"1"}}`, ""},
		{"update bad version", "PUT", cm, `{"metadata":{"name":"there","resourceVersion":"abc"}}`, ""},
		{"update other uid", "PUT", cm, `{"metadata":{"name":"there","uid":"u"}}`, ""},
		{"patch apply", "PATCH", cm, `{}`, "Content-Type: application/apply-patch+yaml"},
		{"patch unknown type", "PATCH", cm, `{}`, "Content-Type: application/json"},
		{"patch malformed", "PATCH", cm, `{`, "Content-Type: application/merge-patch+json"},
		{"patch failed test", "PATCH", cm, `[{"op":"test","path":"/data/k","value":"w"}]`, "Content-Type: application/json-patch+json"},
		{"patch copies too much", "PATCH", cm, doubling, "Content-Type: application/json-patch+json"},
		{"patch no operations", "PATCH", cm, `{"op":"test"}`, "Content-Type: application/json-patch+json"},
		{"patch wrong type", "PATCH", cm, `{"data":{"k":1}}`, "Content-Type: application/merge-patch+json"},
		{"patch wrong type, strategic", "PATCH", cm, `{"data":{"k":1}}`, "Content-Type: application/strategic-merge-patch+json"},
		{"patch stale", "PATCH", cm, `{"metadata":{"resourceVersion":"1"}}`, "Content-Type: application/merge-patch+json"},
		{"patch missing", "PATCH", cms + "/missing", `{}`, "Content-Type: application/merge-patch+json"},
		{"delete missing", "DELETE", cms + "/missing", "", ""},
		{"delete other uid", "DELETE", cm, `{"preconditions":{"uid":"u"}}`, ""},
		{"delete other version", "DELETE", cm, `{"preconditions":{"resourceVersion":"1"}}`, ""},
		{"delete two policies", "DELETE", cm, `{"orphanDependents":true,"propagationPolicy":"Background"}`, ""},
		{"delete unknown policy", "DELETE", cm, `{"propagationPolicy":"Somehow"}`, ""},
		{"delete immortal", "DELETE", "/api/v1/namespaces/default", "", ""},
		{"bad label selector", "GET", cms + "?labelSelector=a+b+c", "", ""},
		{"bad field selector", "GET", cms + "?fieldSelector=data.k%3Dv", "", ""},
		{"bad field selector of pods", "GET", "/api/v1/pods?fieldSelector=spec.image%3Dv", "", ""},
		{"bad resourceVersion", "GET", cms + "?resourceVersion=abc", "", ""},
		{"match without resourceVersion", "GET", cms + "?resourceVersionMatch=Exact", "", ""},
		{"unknown match", "GET", cms + "?resourceVersion=1&resourceVersionMatch=Around", "", ""},
		{"exact zero", "GET", cms + "?resourceVersion=0&resourceVersionMatch=Exact", "", ""},
		{"bad continue", "GET", cms + "?continue=abc", "", ""},
		{"initial events for list", "GET", cms + "?sendInitialEvents=true", "", ""},
		{"initial events without match", "GET", cms + "?watch=1&sendInitialEvents=true", "", ""},
		{"bind a bound pod", "POST", "/api/v1/namespaces/default/pods/bound/binding", `{"metadata":{"name":"bound"},"target":{"kind":"Node","name":"n2"}}`, ""},
		{"bind to nothing", "POST", "/api/v1/namespaces/default/pods/bound/binding", `{"metadata":{"name":"bound"},"target":{"kind":"Pod"}}`, ""},
		{"evict other", "POST", "/api/v1/namespaces/default/pods/bound/eviction", `{"metadata":{"name":"other"}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if c.header != "" {
				headers = append(headers, c.header)
			}
			w := &web{t: t, client: w.client, url: w.url}
			resp, body := w.do(c.method, c.path, c.body, headers...)
			st := &metav1.Status{}
			if err := yaml.Unmarshal([]byte(body), st); err != nil {
				t.Fatalf("decode %s: %v", body, err)
			}
			golden(t, c.name, fmt.Sprintf("%d %s", resp.StatusCode, describe(st)))
		})
	}
	if *update {
		writeGolden(t)
	}
}

// describe is a Status in one line, without what differs from run to run.
func describe(st *metav1.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", st.Reason, st.Message)
	if d := st.Details; d != nil {
		fmt.Fprintf(&b, " | %s %s %s", d.Kind, d.Group, d.Name)
		for _, c := range d.Causes {
			fmt.Fprintf(&b, " | %s %s: %s", c.Type, c.Field, c.Message)
		}
		if d.RetryAfterSeconds != 0 {
			fmt.Fprintf(&b, " | retry %d", d.RetryAfterSeconds)
		}
	}
	if int(st.Code) == 0 {
		b.WriteString(" | no code")
	}
	return strings.ReplaceAll(times.ReplaceAllString(uuids.ReplaceAllString(b.String(), "UID"), "TIME"), "\n", `\n`)
}

const goldenFile = "testdata/statuses.txt"

var goldens = map[string]string{}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		goldens[name] = got
		goldenOrder = append(goldenOrder, name)
		return
	}
	if len(goldens) == 0 {
		f, err := os.Open(goldenFile)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			name, want, _ := strings.Cut(lines.Text(), " => ")
			goldens[name] = want
		}
	}
	if want := goldens[name]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

var goldenOrder []string

func writeGolden(t *testing.T) {
	t.Helper()
	var b strings.Builder
	for _, name := range goldenOrder {
		fmt.Fprintf(&b, "%s => %s\n", name, goldens[name])
	}
	if err := os.WriteFile(goldenFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
