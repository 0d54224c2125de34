package revisions

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

var owner = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "set"}}

func rev(t *testing.T, image string, number int64) *appsv1.ControllerRevision {
	t.Helper()
	r, err := New(owner, appsv1.SchemeGroupVersion.WithKind("StatefulSet"), map[string]string{"app": "web"}, template(image), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Revision = number
	return r
}

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func TestTemplateComesBack(t *testing.T) {
	r := rev(t, "v1", 1)
	got, err := Template(r)
	if err != nil || got.Spec.Containers[0].Image != "v1" || got.Labels["app"] != "web" {
		t.Errorf("got %+v, %v", got, err)
	}
	if !strings.Contains(string(r.Data.Raw), `"$patch":"replace"`) {
		t.Errorf("the data is no patch: %s", r.Data.Raw)
	}
	if hash := r.Labels[HashLabel]; r.Name != "web-"+hash || r.Labels["app"] != "web" {
		t.Errorf("%s has labels %v", r.Name, r.Labels)
	}
	one := int32(1)
	other, err := New(owner, appsv1.SchemeGroupVersion.WithKind("StatefulSet"), nil, template("v1"), &one)
	if err != nil || other.Name == r.Name || !Equal(other, r) {
		t.Errorf("after a collision it is %s, was %s", other.Name, r.Name)
	}
}

func TestNext(t *testing.T) {
	if now, s := Next(rev(t, "v1", 0), nil); s.Create == nil || now.Revision != 1 {
		t.Errorf("the first: %+v", s)
	}
	owned := []*appsv1.ControllerRevision{rev(t, "v2", 2), rev(t, "v1", 1)}
	if now, s := Next(rev(t, "v2", 0), owned); s != (Step{}) || now.Revision != 2 {
		t.Errorf("the latest again: %+v", s)
	}
	if now, s := Next(rev(t, "v1", 0), owned); s.Update == nil || now.Revision != 3 || owned[0].Revision != 1 {
		t.Errorf("back to an old one: %+v", s)
	}
	if now, s := Next(rev(t, "v3", 0), owned); s.Create == nil || now.Revision != 3 {
		t.Errorf("a new one: %+v", s)
	}
}

func TestSurplus(t *testing.T) {
	owned := []*appsv1.ControllerRevision{rev(t, "v3", 3), rev(t, "v1", 1), rev(t, "v2", 2), rev(t, "v4", 4)}
	used := func(r *appsv1.ControllerRevision) bool { return r.Revision == 1 || r.Revision == 4 }
	if got := Surplus(owned, used, 1); got == nil || got.Revision != 2 {
		t.Errorf("got %+v, want revision 2", got)
	}
	if got := Surplus(owned, used, 2); got != nil {
		t.Errorf("got revision %d, want none", got.Revision)
	}
}

func TestKeep(t *testing.T) {
	c := apitest.New(t, apitest.Options{}).Client("tester")
	want := rev(t, "v1", 1)
	if got, taken, err := Keep(t.Context(), c, owner, Step{Create: want}); err != nil || taken || got.GetName() != want.Name {
		t.Fatalf("%v, %t, %v", got, taken, err)
	}
	got, taken, err := Keep(t.Context(), c, owner, Step{Create: want})
	if err != nil || taken {
		t.Fatalf("asked again: %v, %t, %v", got, taken, err)
	}
	if _, taken, err := Keep(t.Context(), c, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "other"}}, Step{Create: want}); err != nil || !taken {
		t.Errorf("another's has the name: %t, %v", taken, err)
	}
	up := got.(*appsv1.ControllerRevision).DeepCopy()
	up.Revision = 5
	if _, _, err := Keep(t.Context(), c, owner, Step{Update: up}); err != nil {
		t.Fatal(err)
	}
	if there, err := client.Get[*appsv1.ControllerRevision](t.Context(), c, client.ControllerRevisions, "default", want.Name); err != nil || there.Revision != 5 {
		t.Errorf("revision is %d, %v", there.Revision, err)
	}
}
