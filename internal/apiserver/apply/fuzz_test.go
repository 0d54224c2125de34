package apply

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	mutations "github.com/setpoint-project/setpoint/internal/mutate"
)

// FuzzFieldsV1: a set that can be read is written so that it reads the same,
// here and in the merge library.
func FuzzFieldsV1(f *testing.F) {
	for _, s := range setSeeds {
		f.Add(s)
	}
	f.Fuzz(checkFieldsV1)
}

func TestMutatedFieldsV1(t *testing.T) { mutations.Run(t, setSeeds, checkFieldsV1) }

var setSeeds = byteSeeds(
	`{}`, `{"f:a":{}}`, `{"f:spec":{".":{},"f:x":{"k:{\"name\":\"a\"}":{".":{},"f:v":{}}}}}`,
	`{"f:metadata":{"f:finalizers":{".":{},"v:\"x\"":{}}}}`, `{"f:b":{},"f:a":{},"f:a":{"f:c":{}}}`, `{"i:0":{}}`, ` { "f:é\u0001\"" : { } } `, "{\"f:\xc4\":{}}", // found by mutation
)

func byteSeeds(texts ...string) [][]byte {
	out := make([][]byte, len(texts))
	for i, s := range texts {
		out[i] = []byte(s)
	}
	return out
}

func checkFieldsV1(t *testing.T, data []byte) {
	s, err := parse(data)
	if err != nil {
		return
	}
	out := encode(s)
	again, err := parse(out)
	if err != nil {
		t.Fatalf("%s was written as %s: %v", data, out, err)
	}
	if diff := cmp.Diff(s, again, cmp.AllowUnexported(set{})); diff != "" {
		t.Fatalf("%s reads otherwise (-first +second):\n%s", out, diff)
	}
	var theirs, ours fieldpath.Set
	if !utf8.Valid(data) || theirs.FromJSON(bytes.NewReader(data)) != nil { // the library takes bytes that are no JSON as they are
		return
	}
	if err := ours.FromJSON(bytes.NewReader(out)); err != nil || !ours.Equals(&theirs) {
		t.Fatalf("%s became %s: %v", data, out, err)
	}
}

var applySeeds = byteSeeds(
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","ports":[{"containerPort":80}]}]}}`,
	`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c"},{"name":"c"}]}}`,
	`{"apiVersion":"v1","kind":"Pod","spec":null,"metadata":{"labels":{"a":null},"finalizers":["x","x"]}}`,
	`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":[]}}}]}}`,
	`{"apiVersion":"v2","kind":"Pod"}`, `{}`,
)

// FuzzApply: whatever is applied to a pod is merged or refused.
func FuzzApply(f *testing.F) {
	check := applyCheck(f)
	for _, s := range applySeeds {
		f.Add(s, true)
	}
	f.Fuzz(check)
}

func TestMutatedApply(t *testing.T) {
	check := applyCheck(t)
	mutations.Run(t, applySeeds, func(t *testing.T, data []byte) { check(t, data, len(data)%2 == 0) })
}

func applyCheck(tb testing.TB) func(t *testing.T, data []byte, force bool) {
	k := kindOf(tb, New(), "pods")
	live := testPod()
	k.Track(nil, live, Request{Manager: "m"})
	return func(t *testing.T, data []byte, force bool) {
		config := map[string]any{}
		if json.UnmarshalCaseSensitivePreserveInts(data, &config) != nil {
			return
		}
		before := live.DeepCopy()
		out, err := k.Apply(live, config, force, Request{Manager: "fuzz"})
		if diff := cmp.Diff(before, live); diff != "" {
			t.Fatalf("the live object was changed:\n%s", diff)
		}
		if err != nil {
			return
		}
		again, err := k.Apply(out, config, force, Request{Manager: "fuzz"})
		if _, clears := config["metadata"]; err != nil && !clears {
			t.Fatalf("the same again: %v", err)
		}
		if err == nil && !sameButManagers(out.(*corev1.Pod), again.(*corev1.Pod)) {
			t.Fatalf("the same again is something else:\n%s", cmp.Diff(out, again))
		}
	}
}

func sameButManagers(a, b *corev1.Pod) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	a.ManagedFields, b.ManagedFields = nil, nil
	return cmp.Equal(a, b)
}
