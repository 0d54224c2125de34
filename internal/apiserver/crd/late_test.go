package crd_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/crd"
	"github.com/setpoint-project/setpoint/internal/client"
)

// late is a client whose view of definitions hears of each change a second
// after it was made. Get shows what is there, as it does in the process of the
// server; indexes and handlers go by what was heard.
type late struct{ client.Interface }

func (c late) View(res client.Resource, opts client.ViewOptions) client.View {
	v := c.Interface.View(res, opts)
	if res != crd.Definitions {
		return v
	}
	return &lateView{View: v, indexes: map[string]func(client.Object) []string{}, heard: map[string]client.Object{}}
}

type lateView struct {
	client.View
	indexes map[string]func(client.Object) []string // before Handle

	mu    sync.Mutex
	heard map[string]client.Object // guarded by mu
}

func (v *lateView) Index(name string, values func(client.Object) []string) { v.indexes[name] = values }

func (v *lateView) ByIndex(name, value string) (found []client.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, obj := range v.heard {
		if slices.Contains(v.indexes[name](obj), value) {
			found = append(found, obj)
		}
	}
	return found
}

func (v *lateView) Handle(f func(old, now client.Object)) (remove func()) {
	return v.View.Handle(func(old, now client.Object) {
		time.Sleep(time.Second)
		v.mu.Lock()
		if now != nil {
			v.heard[now.GetName()] = now
		} else {
			delete(v.heard, old.GetName())
		}
		v.mu.Unlock()
		f(old, now)
	})
}

// WaitFor waits until a write of the loop's own was heard of.
func (v *lateView) WaitFor(ctx context.Context, resourceVersion string) error {
	of := func(obj client.Object) bool { return obj.GetResourceVersion() == resourceVersion }
	heard := func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return slices.ContainsFunc(slices.Collect(maps.Values(v.heard)), of)
	}
	// What is gone, or was written again, will not be heard of as it was.
	for !heard() && slices.ContainsFunc(v.View.List(""), of) {
		time.Sleep(time.Second / 10)
	}
	return v.View.WaitFor(ctx, resourceVersion)
}

// A definition gets the names of one that is gone, however late the loop's
// indexes hear of it.
func TestNamesAreFreeThoughHeardOfLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{Definitions: func(c client.Interface) client.Interface { return late{c} }})
		w := &world{T: t, Harness: h, Interface: h.Client("admin"), ctx: t.Context()}
		names := []string{"crontabs", "cronjobbers", "crons"}
		for _, name := range names {
			w.define(strings.ReplaceAll(crontabs, "crontabs", name))
			time.Sleep(time.Minute)
		}
		for i, gone := range names[:2] {
			if err := w.Delete(w.ctx, crd.Definitions, "", gone+".stable.example.com", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			next := names[i+1] + ".stable.example.com"
			if got := conditions(w.definition(next)); !slices.Contains(got, "Established=True InitialNamesAccepted") {
				t.Errorf("without %s, %s has conditions %q", gone, next, got)
			}
		}
	})
}
