package client

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ledger is an Interface that keeps events and knows nothing else.
type ledger struct {
	Interface
	mu      sync.Mutex
	events  map[string]*corev1.Event
	refuse  error
	patches int
}

func (l *ledger) Create(_ context.Context, _ Resource, obj Object, _ ...string) (Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return nil, l.refuse
	}
	l.events[obj.GetName()] = obj.(*corev1.Event)
	return obj, nil
}

func (l *ledger) Patch(_ context.Context, _ Resource, _, name string, _ types.PatchType, data []byte, _ ...string) (Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.patches++
	had := l.events[name]
	if had == nil {
		return nil, apierrors.NewNotFound(Events.GroupResource(), name)
	}
	had = had.DeepCopy()
	if err := json.Unmarshal(data, had); err != nil {
		return nil, err
	}
	l.events[name] = had
	return had, nil
}

func record(t *testing.T, f func(r *EventRecorder, l *ledger)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := &ledger{events: map[string]*corev1.Event{}}
		r := NewRecorder(RecorderOptions{Client: l, Component: "replicaset-controller"})
		go r.Run(ctx)
		f(r, l)
		cancel()
		synctest.Wait()
	})
}

var about = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u1"}}

func TestEventsOfOneTextAreCounted(t *testing.T) {
	record(t, func(r *EventRecorder, l *ledger) {
		for range 5 {
			r.Event(about, "Warning", "BackOff", "again")
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if len(l.events) != 1 {
			t.Fatalf("%d events, want 1", len(l.events))
		}
		for _, e := range l.events {
			if e.Count != 5 || e.LastTimestamp.Sub(e.FirstTimestamp.Time) != 4*time.Second {
				t.Errorf("count is %d over %v", e.Count, e.LastTimestamp.Sub(e.FirstTimestamp.Time))
			}
			want := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web", UID: "u1"}
			if e.InvolvedObject != want || e.Namespace != "shop" || e.Source.Component != "replicaset-controller" {
				t.Errorf("event is %+v", e)
			}
		}
		// The event expires: the next of its text is a new one.
		clear(l.events)
		r.Event(about, "Warning", "BackOff", "again")
		synctest.Wait()
		r.Event(about, "Warning", "BackOff", "again")
		synctest.Wait()
		if len(l.events) != 1 {
			t.Errorf("%d events after expiry, want 1", len(l.events))
		}
		for _, e := range l.events {
			if e.Count != 2 {
				t.Errorf("count is %d after expiry, want 2", e.Count)
			}
		}
	})
}

func TestManyEventsAreCombinedAndHeldBack(t *testing.T) {
	record(t, func(r *EventRecorder, l *ledger) {
		for i := range 1000 {
			r.Event(about, "Normal", "SuccessfulCreate", "Created pod: web-%d", i)
		}
		synctest.Wait()
		if len(l.events) != alikeLimit+1 {
			t.Errorf("%d events, want %d and one that combines", len(l.events), alikeLimit)
		}
		if writes := len(l.events) + l.patches; writes != spamBurst {
			t.Errorf("%d writes, want %d", writes, spamBurst)
		}
		time.Sleep(spamEvery + time.Second)
		r.Event(about, "Normal", "Later", "later")
		synctest.Wait()
		if len(l.events) != alikeLimit+2 {
			t.Error("after a while it is not heard again")
		}
	})
}

// One recorder tells of several components, each in its name.
func TestEventsNameTheirSource(t *testing.T) {
	record(t, func(r *EventRecorder, l *ledger) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}}
		r.Event(pod, corev1.EventTypeNormal, "Done", "by itself")
		r.As("other").Event(pod, corev1.EventTypeNormal, "Done", "by another")
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		got := map[string]string{}
		for _, e := range l.events {
			if e.ReportingController != e.Source.Component {
				t.Errorf("the source is %s, the controller %s", e.Source.Component, e.ReportingController)
			}
			got[e.Message] = e.Source.Component
		}
		if got["by itself"] != "replicaset-controller" || got["by another"] != "other" || len(got) != 2 {
			t.Errorf("sources are %v", got)
		}
	})
}

func TestEventsNeverBlock(t *testing.T) {
	record(t, func(r *EventRecorder, l *ledger) {
		l.refuse = fmt.Errorf("connection refused")
		start := time.Now()
		for i := range 3 * eventQueue {
			r.Event(about, "Normal", "Tick", "%d", i)
		}
		if time.Since(start) != 0 || r.lost.Load() < eventQueue {
			t.Errorf("took %v and lost %d", time.Since(start), r.lost.Load())
		}
		l.mu.Lock()
		l.refuse = nil
		l.mu.Unlock()
		time.Sleep(time.Minute)
		if len(l.events) == 0 {
			t.Error("nothing is written once the server is back")
		}
	})
}

func TestClusterScopedEventsLieInDefault(t *testing.T) {
	record(t, func(r *EventRecorder, l *ledger) {
		r.Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, "Normal", "NodeReady", "ready")
		synctest.Wait()
		for _, e := range l.events {
			if e.Namespace != "default" || e.InvolvedObject.Kind != "Node" {
				t.Errorf("event is %+v", e)
			}
		}
	})
}
