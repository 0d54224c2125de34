package csi_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/csi/csitest"
)

// TestKilled: a kubelet that is killed before or after any call of a driver,
// whose answer it never sees, and starts again, ends where one ends that never
// is: each pod's volume there, then nothing left.
func TestKilled(t *testing.T) {
	for at := 1; ; at++ {
		killed := false
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("at=%d,before=%t", at, before), func(t *testing.T) {
				killed = playKilled(t, at, before) || killed
			})
		}
		if t.Failed() {
			return
		}
		if !killed {
			if at < 7 {
				t.Errorf("there were but %d calls to be killed at", at-1)
			}
			return
		}
	}
}

// playKilled tells whether there was a call to be killed at.
func playKilled(t *testing.T, at int, before bool) (killed bool) {
	var r *rig
	n := 0
	die := func(now bool) func(context.Context, string, string) error {
		return func(ctx context.Context, _, _ string) error {
			if now {
				n++
			}
			if n != at || killed || now != before {
				return nil
			}
			killed = true
			_, _ = r.now()
			r.mu.Lock()
			r.kill()
			r.mu.Unlock()
			<-ctx.Done() // the kubelet hangs up: it does not hear the answer
			return ctx.Err()
		}
	}
	r = newRig(t, func(d *csitest.Driver) { d.Before, d.After = die(true), die(false) })
	pv, a, b := r.bound("data"), r.pod("a", "data"), r.pod("b", "data")
	// again does something until it is done, by a new kubelet where one has died.
	again := func(f func() error) {
		t.Helper()
		for try := 0; ; try++ {
			err := f()
			if _, ctx := r.now(); ctx.Err() != nil {
				r.stop()
				r.start()
				continue
			}
			if err == nil {
				return
			}
			if try > 3 {
				t.Fatal(err)
			}
		}
	}
	mounted := func(pods ...*v1.Pod) {
		t.Helper()
		m, _ := r.now()
		for _, pod := range pods {
			if !m.Mounted(pod.UID, "v") {
				t.Errorf("the volume of pod %s is not mounted", pod.Name)
			}
		}
	}
	again(func() error { return r.mount(a, pv) })
	again(func() error { return r.mount(b, pv) })
	mounted(a, b)
	again(func() error { return r.tearDown(a) })
	mounted(b)
	again(func() error { return r.tearDown(b) })
	r.delete(a)
	r.delete(b)
	r.await("a kubelet lives until the volume is unstaged", func() string {
		if _, ctx := r.now(); ctx.Err() != nil {
			r.stop()
			r.start()
		}
		if left := r.driver.Left(); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
	if _, ctx := r.now(); ctx.Err() != nil {
		r.stop()
		r.start()
	}
	r.awaitGone()
	return killed
}

var errAway = errors.New("the API server is away")

// away is an API server that can be away.
type away struct {
	client.Interface
	now atomic.Bool
}

func (a *away) Get(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error) {
	if a.now.Load() {
		return nil, errAway
	}
	return a.Interface.Get(ctx, res, namespace, name)
}

// TestRestart: a kubelet that starts again asks for nothing anew; on a machine
// that was started again all is done anew.
func TestRestart(t *testing.T) {
	r := newRig(t, nil)
	pv, pod := r.bound("data"), r.pod("a", "data")
	r.must(r.mount(pod, pv))
	r.stop()
	r.start()
	m, _ := r.now()
	if !m.Mounted(pod.UID, "v") {
		t.Error("after a restart the volume is not mounted")
	}
	r.must(r.mount(pod, pv))
	r.awaitCalls("stage h-data", "publish h-data")

	r.stop()
	r.driver.Reboot()
	r.boot = "second"
	r.start()
	if m, _ := r.now(); m.Mounted(pod.UID, "v") {
		t.Error("on a machine that was started again the volume is mounted")
	}
	r.must(r.mount(pod, pv))
	r.awaitCalls("stage h-data", "publish h-data", "stage h-data", "publish h-data")

	// With the API server away a pod may be started with what it has, and no
	// other.
	api := r.api
	r.stop()
	away := &away{Interface: api}
	r.api = away
	r.start()
	away.now.Store(true)
	r.must(r.mount(pod, pv))
	if err := r.mount(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}}, pv); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	r.api = api

	// A pod that is gone while nobody looks is cleaned up after.
	r.stop()
	r.delete(pod)
	r.start()
	m, ctx := r.now()
	r.must(m.TearDown(ctx, pod.UID))
	r.must(m.TearDown(ctx, types.UID("never-was")))
	r.awaitGone()
}
