package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// world is the objects that exist, by "resource/namespace/name".
type world map[string]client.Object

func (w world) get(_ context.Context, res client.Resource, ns, name string) (client.Object, error) {
	if o := w[res.Resource+"/"+ns+"/"+name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(res.GroupResource(), name)
}

func (w world) list(_ context.Context, res client.Resource, ns string) (out []client.Object, err error) {
	for key, o := range w {
		if strings.HasPrefix(key, res.Resource+"/") && (ns == "" || o.GetNamespace() == ns) {
			out = append(out, o)
		}
	}
	return out, nil
}

func named(ns, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name}
}

// request is about obj as a resource such as "pods" or
// "priorityclasses.scheduling.k8s.io".
func request(op Operation, resource string, obj, old kinds.Object) *Request {
	r := &Request{Operation: op, Resource: schema.ParseGroupResource(resource), Object: obj, Old: old, User: &authn.User{Name: "jane"}}
	for _, o := range []kinds.Object{obj, old} {
		if o != nil {
			r.Namespace, r.Name = o.GetNamespace(), o.GetName()
			break
		}
	}
	return r
}

// wantRefused checks the status of an error: "403 forbidden: part of message".
func wantRefused(t *testing.T, err error, code int32, part string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("got error %v, want a status with code %d", err, code)
	}
	if got := status.Status(); got.Code != code || !strings.Contains(got.Message, part) {
		t.Errorf("got %d %q, want %d %q", got.Code, got.Message, code, part)
	}
}

func mustAdmit(t *testing.T, p Plugin, r *Request) {
	t.Helper()
	if err := p.Admit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}
