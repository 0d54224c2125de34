package apiserver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// A loop in process reaches what another server serves behind the front door as
// it reaches what this one does: every verb, views and watches.
func TestLoopsReachOtherServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front, behind := apitest.Behind(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := front.Client("loops")
		set := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.ReplicaSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				},
			},
		}
		view := c.View(client.ReplicaSets, client.ViewOptions{Metadata: true})
		if err := view.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		w, err := c.Watch(ctx, client.ReplicaSets, "default", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		next := func(want watch.EventType) {
			t.Helper()
			select {
			case ev := <-w.ResultChan():
				if ev.Type != want {
					t.Errorf("event %s, want %s", ev.Type, want)
				}
			case <-ctx.Done():
				t.Fatalf("no event, want %s", want)
			}
		}

		made, err := client.Create(ctx, c, client.ReplicaSets, set)
		if err != nil {
			t.Fatal(err)
		}
		next(watch.Added)
		if _, err := behind.Client("tester").Get(ctx, client.ReplicaSets, "default", "web"); err != nil {
			t.Errorf("it is not where it belongs: %v", err)
		}
		if err := view.WaitFor(ctx, made.ResourceVersion); err != nil || view.Get("default", "web") == nil {
			t.Errorf("the view does not show it: %v", err)
		}
		made = made.DeepCopy()
		made.Spec.Replicas = new(int32(3))
		if _, err := client.Update(ctx, c, client.ReplicaSets, made); err != nil {
			t.Fatal(err)
		}
		next(watch.Modified)
		if _, err := c.Patch(ctx, client.ReplicaSets, "default", "web", types.MergePatchType, []byte(`{"metadata":{"labels":{"l":"m"}}}`)); err != nil {
			t.Fatal(err)
		}
		next(watch.Modified)
		list, _, err := client.List[*appsv1.ReplicaSet](ctx, c, client.ReplicaSets, "default", metav1.ListOptions{})
		if err != nil || len(list) != 1 || *list[0].Spec.Replicas != 3 || list[0].Labels["l"] != "m" {
			t.Errorf("listed %v, %v", list, err)
		}
		if _, err := c.Get(ctx, client.ReplicaSets, "default", "nothing"); !apierrors.IsNotFound(err) {
			t.Errorf("what is not there: %v", err)
		}
		if err := c.DeleteCollection(ctx, client.ReplicaSets, "default", metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		next(watch.Deleted)

		// A watch that nobody reads any more ends behind the front door, too.
		w.Stop()
		if err := front.Stop(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
