package crd_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/crd"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/store/local"
)

// inLateBubble is inBubble with a server that is told of each write a second
// after it.
func inLateBubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st, err := local.Open(local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		h := apitest.New(t, apitest.Options{Store: apitest.Late(st, time.Second)})
		f(&world{T: t, Harness: h, Interface: h.Client("admin"), ctx: t.Context()})
	})
}

func (w *world) remove(name string) {
	w.Helper()
	if err := w.Delete(w.ctx, crd.Definitions, "", name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// A definition gets the names of one that is gone, however late the loop's
// indexes hear of it.
func TestNamesAreFreeThoughHeardOfLate(t *testing.T) {
	inLateBubble(t, func(w *world) {
		define := func(names ...string) {
			for _, name := range names {
				w.define(strings.ReplaceAll(crontabs, "crontabs", name))
				time.Sleep(time.Minute)
			}
		}
		has := func(name string) {
			t.Helper()
			if got := conditions(w.definition(name + ".stable.example.com")); !slices.Contains(got, "Established=True InitialNamesAccepted") {
				t.Errorf("%s has conditions %q", name, got)
			}
		}
		define("crontabs", "cronjobbers", "jobs", "tabs")
		has("crontabs")
		// Two that wait for its names go at once. The loop does not look at the
		// one and the other again and again until it hears of that.
		for _, gone := range []string{"jobs", "tabs"} {
			if err := w.Delete(w.ctx, crd.Definitions, "", gone+".stable.example.com", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		w.remove("crontabs.stable.example.com")
		has("cronjobbers")
		define("crontabs")
		w.remove("cronjobbers.stable.example.com")
		has("crontabs")
	})
}

// Whoever follows the objects of a definition hears of the last of them, though
// the definition goes before the server has told of it.
func TestLastObjectIsHeardOf(t *testing.T) {
	inLateBubble(t, func(w *world) {
		w.define(crontabs)
		time.Sleep(time.Minute)
		w.make(cronTabs, aCronTab)
		time.Sleep(time.Minute)
		events, err := w.Watch(w.ctx, cronTabs, "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		view := w.View(cronTabs, client.ViewOptions{Metadata: true})
		view.Index("all", func(client.Object) []string { return []string{"all"} })
		view.Handle(func(_, now client.Object) {
			if now != nil {
				told = append(told, "there")
			} else {
				told = append(told, "gone")
			}
		})
		time.Sleep(time.Minute)
		w.remove("crontabs.stable.example.com")
		if !slices.Equal(told, []string{"there", "gone"}) || len(view.ByIndex("all", "all")) != 0 {
			t.Errorf("told %q; the index shows %v", told, view.ByIndex("all", "all"))
		}
		var kinds []watch.EventType
		for ev := range events.ResultChan() {
			kinds = append(kinds, ev.Type)
		}
		if !slices.Equal(kinds, []watch.EventType{watch.Added, watch.Deleted}) {
			t.Errorf("watched %v", kinds)
		}
	})
}
