package apiserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// TestSlowWatcher: who does not read is cut off without holding up anybody, and
// finds everything when it takes up the watch again.
func TestSlowWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{Mutable: true})
		c := h.Client("tester")
		ctx := context.Background()
		last := fmt.Sprint(h.Store.Revision())
		slow, err := c.Watch(ctx, configMaps, "default", metav1.ListOptions{ResourceVersion: last})
		if err != nil {
			t.Fatal(err)
		}
		quick := follow(t, c, metav1.ListOptions{})
		create(t, c, configMap("a"))
		const writes = 17000 // more than a watcher may lag behind
		for i := range writes {
			if _, err := c.Update(ctx, configMaps, configMap("a", "k", fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			if i%1000 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if len(quick.events) != writes+1 {
			t.Errorf("the quick watcher has %d events, want %d", len(quick.events), writes+1)
		}
		seen := 0
		for ev := range slow.ResultChan() {
			seen++
			last = ev.Object.(client.Object).GetResourceVersion()
		}
		if seen >= writes {
			t.Fatalf("the slow watcher has %d events and was not cut off", seen)
		}
		again := follow(t, c, metav1.ListOptions{ResourceVersion: last})
		synctest.Wait()
		if seen+len(again.events) != writes+1 {
			t.Errorf("the slow watcher has %d events and then %d, want %d in all", seen, len(again.events), writes+1)
		}
	})
}

// TestMutationIsCaught: in test mode, whoever changes a shared object is found
// out.
func TestMutationIsCaught(t *testing.T) {
	h := apitest.New(t, apitest.Options{})
	c := h.Client("tester")
	obj := create(t, c, configMap("a", "k", "v")).(*corev1.ConfigMap)
	obj.Data["k"] = "changed"
	defer func() {
		obj.Data["k"] = "v"
		if got := fmt.Sprint(recover()); !strings.Contains(got, "/registry/configmaps/default/a was changed") {
			t.Errorf("got %q", got)
		}
	}()
	c.Get(context.Background(), configMaps, "default", "a")
}
