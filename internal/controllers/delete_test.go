package controllers_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// TestDelete: what has changed since it was seen goes only for whom that does
// not matter, what has taken the name of another goes for nobody, and what is
// gone already is no error.
func TestDelete(t *testing.T) {
	c := apitest.New(t, apitest.Options{}).Client("system:admin")
	config := func(value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "a"}, Data: map[string]string{"a": value}}
	}
	create := func() client.Object {
		t.Helper()
		got, err := c.Create(t.Context(), client.ConfigMaps, config("1"))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	seen := create()
	if _, err := c.Update(t.Context(), client.ConfigMaps, config("2")); err != nil {
		t.Fatal(err)
	}
	if err := controllers.DeleteSeen(t.Context(), c, client.ConfigMaps, seen); !apierrors.IsConflict(err) {
		t.Errorf("changed since: DeleteSeen returned %v, want a conflict", err)
	}
	for range 2 { // the second time it is gone
		if err := controllers.DeleteSame(t.Context(), c, client.ConfigMaps, seen); err != nil {
			t.Errorf("changed since: DeleteSame returned %v", err)
		}
	}
	other := create()
	if err := controllers.DeleteSame(t.Context(), c, client.ConfigMaps, seen); !apierrors.IsConflict(err) {
		t.Errorf("another of its name: DeleteSame returned %v, want a conflict", err)
	}
	for range 2 {
		if err := controllers.DeleteSeen(t.Context(), c, client.ConfigMaps, other); err != nil {
			t.Errorf("as seen: DeleteSeen returned %v", err)
		}
	}
	if _, err := c.Get(t.Context(), client.ConfigMaps, metav1.NamespaceDefault, "a"); !apierrors.IsNotFound(err) {
		t.Errorf("it is there still: %v", err)
	}
}
