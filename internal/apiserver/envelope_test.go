package apiserver

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// TestEnvelope compares with apimachinery's serializer, byte for byte.
func TestEnvelope(t *testing.T) {
	for _, size := range []int{0, 1, 100, 127, 128, 16383, 16384, 70000} {
		cm := &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"},
			Data:       map[string]string{"k": string(bytes.Repeat([]byte("x"), size))},
		}
		var want bytes.Buffer
		if err := protobuf.NewSerializer(nil, nil).Encode(cm, &want); err != nil {
			t.Fatal(err)
		}
		e := newEnvelope("v1", "ConfigMap")
		got, err := e.encode(cm)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("size %d: got %d bytes, want %d", size, len(got), want.Len())
		}
		tm, raw, err := openEnvelope(got)
		if err != nil || tm != cm.TypeMeta {
			t.Errorf("opened %v: %v", tm, err)
		}
		if !bytes.Equal(raw, e.message(got)) {
			t.Errorf("size %d: message differs from what is in the envelope", size)
		}
		var again corev1.ConfigMap
		if err := again.Unmarshal(raw); err != nil || again.Data["k"] != cm.Data["k"] {
			t.Errorf("size %d: decoded another object: %v", size, err)
		}
	}
}

// TestFrame reads a protobuf frame with the generated type.
func TestFrame(t *testing.T) {
	for _, size := range []int{0, 200, 70000} {
		object := bytes.Repeat([]byte("x"), size)
		frame := appendFrame(nil, mediumProto, watch.Modified, object)
		if n := int(frame[0])<<24 | int(frame[1])<<16 | int(frame[2])<<8 | int(frame[3]); n != len(frame)-4 {
			t.Fatalf("length is %d, want %d", n, len(frame)-4)
		}
		var ev metav1.WatchEvent
		if err := ev.Unmarshal(frame[4:]); err != nil {
			t.Fatal(err)
		}
		if ev.Type != "MODIFIED" || !bytes.Equal(ev.Object.Raw, object) {
			t.Errorf("got %s with %d bytes", ev.Type, len(ev.Object.Raw))
		}
	}
}

func TestParsePath(t *testing.T) {
	for path, want := range map[string]target{
		"/api/v1/pods":                       {version: "v1", resource: "pods"},
		"/api/v1/nodes/n/status":             {version: "v1", resource: "nodes", name: "n", sub: "status"},
		"/api/v1/namespaces":                 {version: "v1", resource: "namespaces"},
		"/api/v1/namespaces/n":               {version: "v1", resource: "namespaces", name: "n"},
		"/api/v1/namespaces/n/finalize":      {version: "v1", resource: "namespaces", name: "n", sub: "finalize"},
		"/api/v1/namespaces/n/pods":          {version: "v1", resource: "pods", namespace: "n", namespaced: true},
		"/api/v1/namespaces/n/pods/p":        {version: "v1", resource: "pods", namespace: "n", name: "p", namespaced: true},
		"/api/v1/namespaces/n/pods/p/log":    {version: "v1", resource: "pods", namespace: "n", name: "p", sub: "log", namespaced: true},
		"/api/v1/nodes/n/proxy/a/b":          {version: "v1", resource: "nodes", name: "n", sub: "proxy", rest: "a/b"},
		"/apis/apps/v1/deployments":          {group: "apps", version: "v1", resource: "deployments"},
		"/apis/apps/v1/namespaces/n/x/y":     {group: "apps", version: "v1", resource: "x", namespace: "n", name: "y", namespaced: true},
		"/apis/g/v1/namespaces/status/pods":  {group: "g", version: "v1", resource: "pods", namespace: "status", namespaced: true},
		"/api/v1/watch/pods":                 {version: "v1", resource: "pods", watch: true},
		"/apis/g/v1/watch/namespaces/n/x/y":  {group: "g", version: "v1", resource: "x", namespace: "n", name: "y", namespaced: true, watch: true},
		"/api/v1/watch":                      {version: "v1", resource: "watch"},
		"/apis/g/v1/widgets/namespaces/spec": {group: "g", version: "v1", resource: "widgets", name: "namespaces", sub: "spec"},
	} {
		got, ok := parsePath(path)
		if !ok || got != want {
			t.Errorf("%s: got %+v %v, want %+v", path, got, ok, want)
		}
	}
	for _, path := range []string{"/", "/api", "/api/", "/api/v1", "/api/v1/", "/apis", "/apis/apps", "/apis/apps/v1", "/apis//v1/x", "/healthz", "/openapi/v3"} {
		if got, ok := parsePath(path); ok {
			t.Errorf("%s is a resource: %+v", path, got)
		}
	}
}
