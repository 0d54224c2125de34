package apiserver_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

const (
	asCBOR   = "Accept: application/cbor"
	sentCBOR = "Content-Type: application/cbor"
)

func toCBOR(t testing.TB, v any) string {
	t.Helper()
	data, err := direct.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func fromCBOR[T any](t testing.TB, data string) *T {
	t.Helper()
	if !strings.HasPrefix(data, "\xd9\xd9\xf7") {
		t.Fatalf("it does not say that it is CBOR: %q", data)
	}
	out := new(T)
	if err := direct.Unmarshal([]byte(data), out); err != nil {
		t.Fatalf("decode %q: %v", data, err)
	}
	return out
}

const secretPath = "/api/v1/namespaces/default/secrets"

func TestCBOR(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"a": "é"}},
			Data: map[string][]byte{"key": {0, 0xff, 1}}, Immutable: new(true)}
	}
	made := fromCBOR[corev1.Secret](t, w.want(201, "POST", secretPath, toCBOR(t, secret("a")), sentCBOR, asCBOR))
	same := decode[corev1.Secret](t, w.want(200, "GET", secretPath+"/a", ""))
	made.ManagedFields, same.ManagedFields = nil, nil // the library's reader turns their sets over only in a client
	if diff := cmp.Diff(same, made); diff != "" || !bytes.Equal(made.Data["key"], []byte{0, 0xff, 1}) {
		t.Errorf("CBOR says something else than JSON: %s", diff)
	}
	w.want(201, "POST", secretPath, toCBOR(t, secret("b")), sentCBOR)

	list := fromCBOR[corev1.SecretList](t, w.want(200, "GET", secretPath+"?limit=1", "", asCBOR))
	if len(list.Items) != 1 || list.Kind != "SecretList" || list.APIVersion != "v1" || list.Continue == "" || *list.RemainingItemCount != 1 {
		t.Errorf("list %+v", list)
	}
	list.Items[0].ManagedFields = nil
	if diff := cmp.Diff(*made, list.Items[0]); diff != "" {
		t.Errorf("an item is another (-want +got): %s", diff)
	}
	const metadata = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	partial := fromCBOR[metav1.PartialObjectMetadataList](t, w.want(200, "GET", secretPath, "", asCBOR+metadata))
	if len(partial.Items) != 2 || partial.Kind != "PartialObjectMetadataList" || partial.Items[1].Name != "b" {
		t.Errorf("metadata %+v", partial)
	}
	table := fromCBOR[map[string]any](t, w.want(200, "GET", secretPath, "", asCBOR+";as=Table;g=meta.k8s.io;v=v1"))
	if rows, _ := (*table)["rows"].([]any); len(rows) != 2 || (*table)["kind"] != "Table" {
		t.Errorf("table %v", table)
	}
	status := fromCBOR[metav1.Status](t, w.want(404, "GET", secretPath+"/none", "", asCBOR))
	if status.Reason != metav1.StatusReasonNotFound {
		t.Errorf("status %+v", status)
	}

	applied := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "data": map[string]any{"k": "v"}}
	got := w.want(201, "PATCH", cmPath+"/c?fieldManager=m", toCBOR(t, applied), "Content-Type: application/apply-patch+cbor")
	wantManagers(t, got, "m Apply v1: f:data{f:k}")
	w.want(200, "DELETE", secretPath+"/b", toCBOR(t, metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}), sentCBOR)

	// What is wrong with JSON is wrong with CBOR.
	unknown := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "d"}, "dta": map[string]any{}}
	if got := w.want(400, "POST", cmPath+"?fieldValidation=Strict", toCBOR(t, unknown), sentCBOR); !strings.Contains(got, `unknown field \"dta\"`) {
		t.Errorf("unknown field: %s", got)
	}
	w.want(400, "POST", cmPath, "\xa2\x41a\x01\x41a\x02", sentCBOR) // a key twice
	w.want(400, "POST", cmPath, "\xa1\x41", sentCBOR)
	w.want(400, "POST", cmPath, strings.Repeat("\x81", 1000), sentCBOR)
	w.want(400, "PATCH", cmPath+"/c?fieldManager=m", "\xff", "Content-Type: application/apply-patch+cbor")
	w.want(406, "GET", cmPath, "", "Accept: application/cbor-seq")
	w.want(415, "POST", cmPath, "x", "Content-Type: application/cbor-seq")
}

// TestCBORCustom: an object of which no Go type tells anything.
func TestCBORCustom(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	w.want(201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"boxes.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"boxes","singular":"box","kind":"Box","listKind":"BoxList"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`)
	const path = "/apis/example.com/v1/namespaces/default/boxes"
	box := map[string]any{"apiVersion": "example.com/v1", "kind": "Box", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"int": int64(1) << 60, "float": 1.5, "list": []any{"é", nil, true}, "other": "x"}}
	for { // the kind comes in a moment
		resp, body := w.do("POST", path, toCBOR(t, box), sentCBOR, asCBOR)
		if resp.StatusCode == http.StatusNotFound {
			continue
		}
		if resp.StatusCode != 201 {
			t.Fatalf("got %d: %s", resp.StatusCode, body)
		}
		got := fromCBOR[map[string]any](t, body)
		if diff := cmp.Diff(box["spec"], (*got)["spec"]); diff != "" {
			t.Errorf("spec (-want +got): %s", diff)
		}
		break
	}
	list := fromCBOR[map[string]any](t, w.want(200, "GET", path, "", asCBOR))
	if items, _ := (*list)["items"].([]any); len(items) != 1 || (*list)["kind"] != "BoxList" {
		t.Errorf("list %v", list)
	}
}

// TestCBORWatch reads a watch as a sequence of items.
func TestCBORWatch(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	w.want(201, "POST", cmPath, toJSON(t, configMap("a", "k", "v")))
	for _, accept := range []string{"application/cbor-seq", "application/cbor"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", w.url+cmPath+"?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || ct != "application/cbor-seq" {
			t.Fatalf("got %s, %q", resp.Status, ct)
		}
		frames := cbor.NewFramer().NewFrameReader(resp.Body)
		buf := make([]byte, 64<<10)
		for _, want := range []string{"ADDED a", "BOOKMARK "} {
			n, err := frames.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			var ev struct {
				Type   string           `json:"type"`
				Object corev1.ConfigMap `json:"object"`
			}
			if err := direct.Unmarshal(buf[:n], &ev); err != nil {
				t.Fatal(err)
			}
			if got := ev.Type + " " + ev.Object.Name; got != want || ev.Object.Kind != "ConfigMap" {
				t.Errorf("got %q, %+v, want %q", got, ev.Object.TypeMeta, want)
			}
		}
	}
}
