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

// A client that is to crash at a write does so whatever becomes of it.
func TestCrashAtARefusedWrite(t *testing.T) {
	faulty(t, client.Faults{Refuse: 1}, func(ctx context.Context, _ client.Interface, c *client.Faulty) {
		crashed := false
		c.CrashAt(1, false, func() { crashed = true })
		if _, err := c.Create(ctx, client.ConfigMaps, configMap("a", "1")); !errors.Is(err, client.ErrCrashed) || !crashed {
			t.Errorf("%v, crashed %t", err, crashed)
		}
	})
}

// While a write is on its way others write, its sender may lose patience, and
// crash.
func TestWritesOnTheirWay(t *testing.T) {
	faulty(t, client.Faults{Slow: time.Second}, func(ctx context.Context, sound client.Interface, c *client.Faulty) {
		began := time.Now()
		send := func(ctx context.Context, write func(context.Context) error) (answer chan error) {
			answer = make(chan error, 1)
			go func() { answer <- write(ctx) }()
			synctest.Wait()
			return answer
		}
		for i := range 20 {
			made, err := sound.Create(ctx, client.ConfigMaps, configMap(fmt.Sprint("cm-", i), "1"))
			if err != nil {
				t.Fatal(err)
			}
			answer := send(ctx, func(ctx context.Context) error {
				_, err := c.Update(ctx, client.ConfigMaps, made)
				return err
			})
			if _, err := sound.Update(ctx, client.ConfigMaps, configMap(made.GetName(), "2")); err != nil {
				t.Fatal(err)
			}
			if err := <-answer; !apierrors.IsConflict(err) {
				t.Errorf("a write against an older one: %v", err)
			}
		}
		if took := time.Since(began); took == 0 || took > 40*time.Second {
			t.Errorf("20 writes took %v", took)
		}
		create := func(ctx context.Context) error {
			_, err := c.Create(ctx, client.ConfigMaps, configMap("late", "1"))
			return err
		}
		brief, cancel := context.WithCancel(ctx)
		answer := send(brief, create)
		cancel()
		if err := <-answer; !errors.Is(err, context.Canceled) {
			t.Errorf("nobody waits for it any more: %v", err)
		}
		answer = send(ctx, create)
		c.Close()
		if err := <-answer; !errors.Is(err, client.ErrCrashed) {
			t.Errorf("its sender crashed: %v", err)
		}
		if _, err := sound.Get(ctx, client.ConfigMaps, "default", "late"); !apierrors.IsNotFound(err) {
			t.Errorf("it arrived although its sender was gone: %v", err)
		}
	})
}

// A view that shows an object whose making was lost to a handler tells it when
// the object goes, in quiet times at once: a loop that read the view for
// another reason would never learn that what it saw there is gone. It made one
// run in some hundreds of the Deployment end with a pod terminating for ever.
func TestLostMakingIsNoLostEnd(t *testing.T) {
	faulty(t, client.Faults{LoseEvent: 1}, func(ctx context.Context, sound client.Interface, c *client.Faulty) {
		v := c.View(client.ConfigMaps, client.ViewOptions{})
		if err := v.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		var told []string
		v.Handle(func(old, new client.Object) { told = append(told, fmt.Sprint(old != nil, " to ", new != nil)) })
		made, err := sound.Create(ctx, client.ConfigMaps, configMap("a", "1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := v.WaitFor(ctx, made.GetResourceVersion()); err != nil || v.Get("default", "a") == nil {
			t.Fatalf("the view does not show it: %v", err)
		}
		synctest.Wait()
		if len(told) != 0 {
			t.Errorf("a lost event was told: %q", told)
		}
		if err := sound.Delete(ctx, client.ConfigMaps, "default", "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.Calm()
		synctest.Wait()
		if len(told) != 1 || told[0] != "true to false" {
			t.Errorf("told %q, want the end once", told)
		}
	})
}

// A view that is just being filled shows a revision only when all before it is
// there: a loop that waited for what it made saw only some of it.
func TestFillingShowsNothingTooSoon(t *testing.T) {
	faulty(t, client.Faults{}, func(ctx context.Context, sound client.Interface, c *client.Faulty) {
		const n = 300
		last := ""
		for i := range n {
			made, err := sound.Create(ctx, client.ConfigMaps, configMap(fmt.Sprintf("cm-%03d", n-i), "1")) // the last is listed first
			if err != nil {
				t.Fatal(err)
			}
			last = made.GetResourceVersion()
		}
		v := c.View(client.ConfigMaps, client.ViewOptions{})
		if err := v.WaitFor(ctx, last); err != nil {
			t.Fatal(err)
		}
		if got := len(v.List("default")); got < n {
			t.Errorf("%d of %d objects are there", got, n)
		}
	})
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
