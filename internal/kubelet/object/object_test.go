package object

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

// What is held follows the server, tells its holders, and is let go.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		admin := h.Client("admin")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		told := map[types.UID]int{}
		var c *Cache
		c = New(h.Client("system:node:n"), func(owner types.UID) { told[owner]++ })
		ref := Ref{ConfigMaps, "default", "cm"}
		c.Hold(ctx, "one", []Ref{ref})
		c.Hold(ctx, "two", []Ref{ref, {Secrets, "default", "other"}})
		synctest.Wait()
		if _, err := c.ConfigMap(ctx, "default", "cm"); !apierrors.IsNotFound(err) {
			t.Errorf("before it is there: %v", err)
		}
		clear(told)
		cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cm"}, Data: map[string]string{"k": "1"}}
		o, err := admin.Create(ctx, ConfigMaps, cm)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if told["one"] != 1 || told["two"] != 1 {
			t.Errorf("told %v", told)
		}
		c.Hold(ctx, "one", nil)
		cm = o.(*v1.ConfigMap).DeepCopy()
		cm.Data["k"] = "2"
		if _, err := admin.Update(ctx, ConfigMaps, cm); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got, err := c.ConfigMap(ctx, "default", "cm")
		if err != nil || got.Data["k"] != "2" {
			t.Errorf("after the change: %v %v", got, err)
		}
		if told["one"] != 1 || told["two"] != 2 {
			t.Errorf("told %v", told)
		}
		c.Hold(ctx, "two", nil)
		synctest.Wait()
		if len(c.items)+len(c.owners) != 0 {
			t.Errorf("held still: %v %v", c.items, c.owners)
		}
		// What is not held is asked for.
		if got, err = c.ConfigMap(ctx, "default", "cm"); err != nil || got.Data["k"] != "2" {
			t.Errorf("not held: %v %v", got, err)
		}
	})
}
