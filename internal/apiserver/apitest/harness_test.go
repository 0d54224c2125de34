package apitest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func TestInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(t, Options{})
		c := h.Client("tester")
		v := c.View(configMaps, client.ViewOptions{})
		var seen []string
		v.Handle(func(old, new client.Object) {
			if new != nil {
				seen = append(seen, new.GetName()+"@"+new.(*corev1.ConfigMap).Data["k"])
			} else {
				seen = append(seen, "-"+old.GetName())
			}
		})
		ctx := context.Background()
		if err := v.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // Until then a handler that is new is told of what is there, not how it came.
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Data: map[string]string{"k": "1"}}
		got, err := c.Create(ctx, configMaps, cm)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.WaitFor(ctx, got.GetResourceVersion()); err != nil {
			t.Fatal(err)
		}
		if v.Get("default", "a") != got {
			t.Error("the view shows another object than the write returned")
		}
		cm = got.DeepCopyObject().(*corev1.ConfigMap)
		cm.Data["k"] = "2"
		if _, err := c.Update(ctx, configMaps, cm); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := c.Delete(ctx, configMaps, "default", "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // of the bubble's time
		synctest.Wait()
		want := []string{"a@1", "a@2", "-a"}
		if len(seen) != len(want) || seen[0] != want[0] || seen[1] != want[1] || seen[2] != want[2] {
			t.Errorf("told %q, want %q", seen, want)
		}
	})
}
