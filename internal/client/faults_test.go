package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// faulty runs f on a faulty client of a server in memory, in a bubble.
func faulty(t *testing.T, faults client.Faults, f func(ctx context.Context, sound client.Interface, c *client.Faulty)) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		c := client.WithFaults(h.Client("faulty"), faults)
		f(context.Background(), h.Client("sound"), c)
		c.Close()
		synctest.Wait()
	})
}

func TestFaultsOfWrites(t *testing.T) {
	faulty(t, client.Faults{Refuse: 0.2, LoseAnswer: 0.2}, func(ctx context.Context, sound client.Interface, c *client.Faulty) {
		refused, lost, done := 0, 0, 0
		for i := range 200 {
			name := fmt.Sprint("cm-", i)
			_, err := c.Create(ctx, client.ConfigMaps, configMap(name, "1"))
			_, getErr := sound.Get(ctx, client.ConfigMaps, "default", name)
			there := getErr == nil
			switch {
			case err == nil && there:
				done++
			case apierrors.IsTimeout(err) && there:
				lost++
			case (apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err)) && !there:
				refused++
			default:
				t.Errorf("error %v, object there: %t", err, there)
			}
		}
		if refused < 20 || lost < 20 || done < 80 {
			t.Errorf("%d refused, %d lost, %d done", refused, lost, done)
		}
		c.Calm()
		if _, err := c.Create(ctx, client.ConfigMaps, configMap("calm", "1")); err != nil {
			t.Errorf("after Calm: %v", err)
		}
	})
}

func TestCrash(t *testing.T) {
	for _, before := range []bool{true, false} {
		faulty(t, client.Faults{}, func(ctx context.Context, sound client.Interface, c *client.Faulty) {
			crashed := false
			c.CrashAt(2, before, func() { crashed = true })
			if _, err := c.Create(ctx, client.ConfigMaps, configMap("a", "1")); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Create(ctx, client.ConfigMaps, configMap("b", "1")); !errors.Is(err, client.ErrCrashed) || !crashed {
				t.Errorf("the second write: %v", err)
			}
			if _, err := sound.Get(ctx, client.ConfigMaps, "default", "b"); (err == nil) == before {
				t.Errorf("crash before=%t, get: %v", before, err)
			}
			if _, err := c.Get(ctx, client.ConfigMaps, "default", "a"); !errors.Is(err, client.ErrCrashed) {
				t.Errorf("a read after the crash: %v", err)
			}
		})
	}
}

// Whatever gets lost, late or out of order, in the end a handler has heard of
// the present, and a view shows what it was asked to wait for.
func TestFaultyViewCatchesUp(t *testing.T) {
	for seed := range uint64(20) {
		faults := client.Faults{Seed: seed, LoseEvent: 0.3, DoubleEvent: 0.3, LateEvent: 0.3, Lag: 500 * time.Millisecond}
		faulty(t, faults, func(ctx context.Context, sound client.Interface, c *client.Faulty) {
			v := c.View(client.ConfigMaps, client.ViewOptions{})
			known := map[string]string{}
			v.Handle(func(old, new client.Object) {
				if new == nil {
					delete(known, old.GetName())
					return
				}
				if had, ok := known[new.GetName()]; ok && client.Later(had, new.GetResourceVersion()) {
					t.Errorf("%s goes back from %s to %s", new.GetName(), had, new.GetResourceVersion())
				}
				known[new.GetName()] = new.GetResourceVersion()
			})
			if err := v.WaitSynced(ctx); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for i := range 40 {
				name := fmt.Sprint("cm-", i%7)
				if _, ok := want[name]; ok && i%3 == 0 {
					if err := sound.Delete(ctx, client.ConfigMaps, "default", name, metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
					delete(want, name)
					continue
				}
				obj, err := sound.Create(ctx, client.ConfigMaps, configMap(name, "0"))
				if apierrors.IsAlreadyExists(err) {
					changed := v.Get("default", name)
					if changed == nil {
						continue
					}
					cm := configMap(name, fmt.Sprint(i))
					obj, err = sound.Update(ctx, client.ConfigMaps, cm)
				}
				if err != nil {
					t.Fatal(err)
				}
				want[name] = obj.GetResourceVersion()
				if i%5 == 0 {
					if err := v.WaitFor(ctx, obj.GetResourceVersion()); err != nil {
						t.Fatal(err)
					}
					if got := v.Get("default", name); got == nil || client.Later(obj.GetResourceVersion(), got.GetResourceVersion()) {
						t.Errorf("seed %d: the view shows %v after WaitFor(%s)", seed, got, obj.GetResourceVersion())
					}
				}
			}
			c.Calm()
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(known) != len(want) {
				t.Errorf("seed %d: %d objects are known, want %d", seed, len(known), len(want))
			}
			for name, revision := range want {
				if known[name] != revision || v.Get("default", name).GetResourceVersion() != revision {
					t.Errorf("seed %d: %s is known at %q, want %s", seed, name, known[name], revision)
				}
			}
		})
	}
}
