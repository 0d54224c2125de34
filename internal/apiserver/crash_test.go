package apiserver_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/store/local"
)

// replay is what a client knows who follows a watch, over any number of
// servers.
type replay struct {
	t    *testing.T
	have map[string]string // name to resourceVersion
	seen map[string]bool   // every resourceVersion
	last string
}

// follow reads the watch from where the last ended until stop says so.
func (r *replay) follow(ctx context.Context, c client.Interface, stop func(client.Object) bool) {
	w, err := c.Watch(ctx, configMaps, "default", metav1.ListOptions{ResourceVersion: r.last})
	if err != nil {
		r.t.Error(err)
		return
	}
	defer w.Stop()
	for ev := range w.ResultChan() {
		obj, ok := ev.Object.(client.Object)
		if !ok {
			r.t.Errorf("after %s: %v", r.last, ev.Object)
			return
		}
		rv := obj.GetResourceVersion()
		before, _ := strconv.Atoi(r.last)
		now, _ := strconv.Atoi(rv)
		_, there := r.have[obj.GetName()]
		if now <= before || there == (ev.Type == watch.Added) {
			r.t.Errorf("%s of %s at %s, after %s", ev.Type, obj.GetName(), rv, r.last)
		}
		if r.have[obj.GetName()] = rv; ev.Type == watch.Deleted {
			delete(r.have, obj.GetName())
		}
		r.seen[rv], r.last = true, rv
		if stop(obj) {
			return
		}
	}
}

// TestWatchOverCrash: the machine fails amid writes. A watch that is taken up
// at the next server where it was tells of every acknowledged write, each once
// and in order, and ends at what the server has.
func TestWatchOverCrash(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	fs := vfs.NewCrashableMem()
	known := &replay{t: t, have: map[string]string{}, seen: map[string]bool{}}
	var acked ledger
	for life := range 8 {
		st, err := local.Open(local.Options{Dir: "d", FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		h := apitest.New(t, apitest.Options{Store: st, Namespaces: []string{"default"}})
		c := h.Client("t")
		if life == 0 {
			known.last = strconv.FormatInt(st.Revision(), 10)
		}
		fence := create(t, c, configMap(fmt.Sprint("fence-", life))).GetResourceVersion()
		known.follow(t.Context(), c, func(client.Object) bool { return known.last == fence })
		if diff := cmp.Diff(listed(t, c), known.have); diff != "" {
			t.Fatalf("life %d: the watch tells another story: %s", life, diff)
		}
		for rv := range acked.revisions {
			if !known.seen[rv] {
				t.Errorf("life %d: the write of %s was acknowledged and is not told", life, rv)
			}
		}

		stop := make(chan struct{})
		var writing sync.WaitGroup
		for w := range 2 {
			writing.Go(func() { acked.scribble(c, rand.New(rand.NewPCG(uint64(life), uint64(w))), stop) })
		}
		until := 10 + r.IntN(200)
		known.follow(t.Context(), c, func(client.Object) bool { until--; return until <= 0 })
		must := acked.now()
		next := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(3) * 50, RNG: r})
		close(stop)
		writing.Wait()
		if err := h.Stop(); err != nil {
			t.Fatal(err)
		}
		st.Close()
		acked.revisions, fs = must, next
	}
}

// ledger holds the revisions of the writes that were acknowledged.
type ledger struct {
	mu        sync.Mutex
	revisions map[string]bool // guarded by mu
}

func (l *ledger) now() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.revisions)
}

// scribble creates, changes and deletes until stop is closed, or enough is
// written.
func (l *ledger) scribble(c client.Interface, r *rand.Rand, stop chan struct{}) {
	for i := range 3000 {
		select {
		case <-stop:
			return
		default:
		}
		cm := configMap(fmt.Sprint("cm-", r.IntN(8)), "k", fmt.Sprint(i, r.Uint64()))
		var obj client.Object
		var err error
		switch r.IntN(4) {
		case 0:
			c.Delete(context.Background(), configMaps, "default", cm.Name, metav1.DeleteOptions{})
			continue
		case 1:
			obj, err = c.Create(context.Background(), configMaps, cm)
		default:
			obj, err = c.Update(context.Background(), configMaps, cm)
		}
		if err != nil {
			continue // it is there already, or is not
		}
		l.mu.Lock()
		if l.revisions == nil {
			l.revisions = map[string]bool{}
		}
		l.revisions[obj.GetResourceVersion()] = true
		l.mu.Unlock()
	}
}

// listed is what the server has.
func listed(t *testing.T, c client.Interface) map[string]string {
	t.Helper()
	objs, _, err := c.List(t.Context(), configMaps, "default", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, obj := range objs {
		out[obj.GetName()] = obj.GetResourceVersion()
	}
	return out
}
