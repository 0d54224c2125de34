package apiserver_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

// FuzzPatch: whatever a patch of any type says, it is done or refused, and the
// object stays one that can be read.
func FuzzPatch(f *testing.F) {
	kinds := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType}
	h := apitest.New(f, apitest.Options{})
	send := func(method, path, body, contentType string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		h.Server.ServeHTTP(w, r)
		out, _ := io.ReadAll(w.Result().Body)
		return w.Code, string(out)
	}
	for _, seed := range []string{
		`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"copy","from":"/spec","path":"/spec/x"}]`,
		`[{"op":"move","from":"/spec/template","path":"/spec/template/spec"}]`, `[{"op":"remove","path":""}]`, `[null]`,
		`{"metadata":{"labels":{"a":null}},"spec":{"replicas":3}}`, `{"metadata":null}`, `null`, `{"spec":{"replicas":1e400}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","$patch":"delete"}],"$setElementOrder/containers":[{"name":"x"}]}}}}`,
		`{"spec":{"strategy":{"$retainKeys":["type"]}},"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`, `{"$patch":"replace"}`,
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 2}\n", "a: &a [*a]", "{{{{", "--- \n---\n",
	} {
		for k := range kinds {
			f.Add(byte(k), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		send("DELETE", deployPath+"/d", "", "application/json")
		if code, out := send("POST", deployPath, deployment, "application/json"); code != 201 {
			t.Fatal(code, out)
		}
		pt := kinds[int(kind)%len(kinds)]
		code, out := send("PATCH", deployPath+"/d?fieldManager=f&force=true", string(body), string(pt))
		if pt != types.ApplyYAMLPatchType {
			code, out = send("PATCH", deployPath+"/d?fieldManager=f", string(body), string(pt))
		}
		if code == 0 || strings.Contains(out, "panic") {
			t.Fatalf("%s: %d %s", pt, code, out)
		}
		if code, out := send("GET", deployPath+"/d", "", ""); code != 200 {
			t.Fatalf("after %s: %d %s", pt, code, out)
		}
	})
}
