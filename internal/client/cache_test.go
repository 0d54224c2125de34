package client

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func at(name string, revision int, uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(revision),
		Labels: map[string]string{"parity": fmt.Sprint(revision % 2)},
	}}
}

func byParity(obj Object) []string { return []string{obj.GetLabels()["parity"]} }

// inCache runs f on a cache whose goroutines end with the bubble.
func inCache(t *testing.T, f func(c *cache)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		f(newCache(ctx))
		cancel()
	})
}

// tape records what a handler is told.
type tape struct {
	mu   sync.Mutex
	said []string
}

func (r *tape) handle(old, new Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	side := func(o Object) string {
		if o == nil {
			return "-"
		}
		return o.GetName() + "@" + o.GetResourceVersion()
	}
	r.said = append(r.said, side(old)+">"+side(new))
}

func (r *tape) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.said, want) {
		t.Errorf("told %q, want %q", r.said, want)
	}
	r.said = nil
}

func TestCacheTellsChangesInOrder(t *testing.T) {
	inCache(t, func(c *cache) {
		var r tape
		c.set(at("a", 1, "u1"))
		remove := c.Handle(r.handle)
		r.want(t, "->a@1")
		c.set(at("a", 2, "u1"))
		synctest.Wait()
		c.remove("default", "a", "3")
		r.want(t, "a@1>a@2", "a@2>-")
		// Made anew while nobody looked: two changes.
		c.set(at("b", 4, "u1"))
		synctest.Wait()
		c.set(at("b", 5, "u2"))
		r.want(t, "->b@4", "b@4>-", "->b@5")
		remove()
		c.set(at("b", 6, "u2"))
		r.want(t)
	})
}

func TestSlowHandlersHearOfEachObjectOnce(t *testing.T) {
	inCache(t, func(c *cache) {
		var r tape
		c.Handle(func(old, new Object) { r.handle(old, new); time.Sleep(time.Second) })
		c.set(at("a", 1, "u1"))
		synctest.Wait() // the handler is busy with a@1
		for i := range 100 {
			c.set(at("a", 2+i, "u1"))
			c.set(at("b", 200+i, "u2"))
		}
		c.set(at("c", 300, "u3")) // comes and goes
		c.remove("default", "c", "301")
		time.Sleep(time.Minute)
		r.want(t, "->a@1", "a@1>a@101", "->b@299", "->c@300", "c@300>-")
	})
}

func TestCacheReplace(t *testing.T) {
	inCache(t, func(c *cache) {
		var r tape
		c.Index("parity", byParity)
		c.Handle(r.handle)
		c.replace([]Object{at("a", 1, "u1"), at("b", 2, "u2")}, "10")
		synctest.Wait()
		r.said = nil
		if err := c.WaitSynced(context.Background()); err != nil {
			t.Fatal(err)
		}
		same := c.Get("default", "a")
		c.replace([]Object{at("a", 1, "u1"), at("d", 3, "u4")}, "20")
		r.want(t, "->d@3", "b@2>-")
		if c.Get("default", "a") != same {
			t.Error("an object that did not change was replaced")
		}
		if n := len(c.ByIndex("parity", "1")); n != 2 || len(c.ByIndex("parity", "0")) != 0 {
			t.Errorf("%d objects are odd, want 2", n)
		}
		if n := len(c.List("")); n != 2 || len(c.List("default")) != 2 || len(c.List("other")) != 0 {
			t.Errorf("%d objects are listed, want 2", n)
		}
	})
}

func TestCacheWaitFor(t *testing.T) {
	inCache(t, func(c *cache) {
		done := make(chan error)
		go func() { done <- c.WaitFor(context.Background(), "5") }()
		c.set(at("a", 4, "u1"))
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("it does not wait")
		default:
		}
		c.move("5")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		brief, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := c.WaitFor(brief, "6"); err == nil {
			t.Error("it does not wait for what has not come")
		}
	})
}

func TestLateIndexTakesInWhatIsThere(t *testing.T) {
	inCache(t, func(c *cache) {
		for i := range 10 {
			c.set(at(fmt.Sprint("p", i), i+1, fmt.Sprint(i)))
		}
		c.Index("parity", byParity)
		c.Index("parity", func(Object) []string { t.Error("the index is added twice"); return nil })
		if n := len(Indexed[*corev1.Pod](c, "parity", "0")); n != 5 {
			t.Errorf("%d are even, want 5", n)
		}
		if even, odd, none := c.CountIndex("parity", "0"), c.CountIndex("parity", "1"), c.CountIndex("parity", "2"); even != 5 || odd != 5 || none != 0 {
			t.Errorf("counted %d even, %d odd and %d of no parity", even, odd, none)
		}
	})
}

func TestKindOf(t *testing.T) {
	if got := KindOf(&corev1.Pod{}).String(); got != "/v1, Kind=Pod" {
		t.Errorf("got %q", got)
	}
	typed := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Widget"}}
	if got := KindOf(typed).String(); got != "example.com/v1, Kind=Widget" {
		t.Errorf("got %q", got)
	}
}
