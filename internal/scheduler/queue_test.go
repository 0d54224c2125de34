package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func popAll(q *queue) []string {
	names := []string{}
	for p := q.pop(); p != nil; p = q.pop() {
		names = append(names, p.key.Name)
	}
	return names
}

func expectPops(t *testing.T, q *queue, want ...string) {
	t.Helper()
	if got := popAll(q); !slices.Equal(got, want) {
		t.Errorf("popped %q, want %q", got, want)
	}
}

func TestQueueOrder(t *testing.T) {
	q := newQueue()
	q.add(newPodInfo(makePod("late")), now.Add(2*time.Second))
	q.add(newPodInfo(makePod("early")), now.Add(time.Second))
	q.add(newPodInfo(makePod("high", priority(10))), now.Add(3*time.Second))
	q.add(newPodInfo(makePod("low", priority(-1))), now)
	q.add(newPodInfo(makePod("gone", priority(99))), now)
	q.remove(newPodInfo(makePod("gone")).key)
	expectPops(t, q, "high", "early", "late", "low")
	if len(q.pods) != 0 {
		t.Errorf("%d pods left", len(q.pods))
	}
}

func TestQueueBackoff(t *testing.T) {
	for attempts, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 50: 10 * time.Second} {
		if got := backoff(attempts); got != want {
			t.Errorf("backoff(%d) = %s, want %s", attempts, got, want)
		}
	}
	q := newQueue()
	q.add(newPodInfo(makePod("p")), now)
	q.retry(q.pop(), now)
	if due, ok := q.nextDue(); !ok || !due.Equal(now.Add(time.Second)) {
		t.Errorf("due %v, %v", due, ok)
	}
	q.add(newPodInfo(makePod("p")), now) // a status update does not end the back-off
	q.release(now.Add(time.Second - 1))
	expectPops(t, q)
	q.release(now.Add(time.Second))
	expectPops(t, q, "p")
}

func TestQueueTriesAnUpdatedPodAtOnce(t *testing.T) {
	q := newQueue()
	q.add(newPodInfo(makePod("p")), now)
	q.park(q.pop(), refused{}, now)
	q.add(newPodInfo(makePod("p")), now)
	expectPops(t, q)
	q.add(newPodInfo(makePod("p", func(p *corev1.Pod) { p.Generation = 2 })), now)
	if q.waiting.pods != 0 || len(q.timed) != 0 {
		t.Error("it is parked as well")
	}
	expectPops(t, q, "p")
}

func TestQueueFlushesUnschedulable(t *testing.T) {
	q := newQueue()
	q.add(newPodInfo(makePod("p")), now)
	q.park(q.pop(), refused{}, now)
	q.release(now.Add(unschedulableFor - 1))
	expectPops(t, q)
	q.release(now.Add(unschedulableFor))
	expectPops(t, q, "p")
}

// A place that comes free wakes the pods it has room for, no more.
func TestWakeTakesWhatFits(t *testing.T) {
	q := newQueue()
	for i := range 5 {
		q.add(newPodInfo(makePod(fmt.Sprint("p", i), requests("cpu", "2"), priority(int32(i)))), now)
	}
	q.add(newPodInfo(makePod("selective", selectNodes(map[string]string{"zone": "a"}))), now)
	for _, p := range func() (ps []*podInfo) {
		for p := q.pop(); p != nil; p = q.pop() {
			ps = append(ps, p)
		}
		return
	}() {
		q.park(p, refused{}, now)
	}
	c := makeCluster(makeNode("n"))
	q.wake(c.nodes["n"], &c.nominated)
	if got := q.waiting.pods; got != 4 {
		t.Errorf("%d still wait, want 4", got)
	}
	if p := q.active[0]; p.queued.wokenBy != "n" {
		t.Errorf("woken by %q", p.queued.wokenBy)
	}
	expectPops(t, q, "p4", "p3")
	if n := c.nodes["n"]; len(n.pods) != 0 || !n.requested.zero() {
		t.Error("waking changed the node")
	}
}

// Where rules about other pods are in the way any change may help, but a pod
// is tried no more often than its back-off allows.
func TestWakeRuled(t *testing.T) {
	q := newQueue()
	q.add(newPodInfo(makePod("p")), now)
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		q.release(now)
		q.park(q.pop(), refused{ruled: true}, now)
		q.wakeRuled(func(*podInfo) bool { return true })
		if due, ok := q.nextDue(); !ok || !due.Equal(now.Add(wait)) {
			t.Fatalf("attempt %d: due after %s, %v", i, due.Sub(now), ok)
		}
		now := now.Add(wait)
		q.release(now)
		if len(q.active) != 1 {
			t.Fatalf("attempt %d: not active", i)
		}
	}
	q.park(q.pop(), refused{ruled: true}, now)
	if q.waiting.pods != 1 || len(q.waiting.ruled) != 1 {
		t.Errorf("%d wait, %d ruled", q.waiting.pods, len(q.waiting.ruled))
	}
	q.remove(newPodInfo(makePod("p")).key)
	if len(q.waiting.ruled) != 0 || len(q.timed) != 0 {
		t.Error("a trace is left")
	}
}

// Room that is kept for a nominated pod wakes nobody else: woken for it and
// refused, a pod would be woken again at once, for ever.
func TestKeptRoomWakesNobody(t *testing.T) {
	c := makeCluster(makeNode("n"))
	c.nominated.set(newPodInfo(makePod("urgent", requests("cpu", "4"), priority(9))), "n")
	q := newQueue()
	for name, urgency := range map[string]int32{"less": 1, "more": 10} {
		q.add(newPodInfo(makePod(name, requests("cpu", "2"), priority(urgency))), now)
		q.park(q.pop(), refused{}, now)
	}
	q.wake(c.nodes["n"], &c.nominated)
	expectPops(t, q, "more")
	c.nominated.forget(newPodInfo(makePod("urgent")).key)
	q.wake(c.nodes["n"], &c.nominated)
	expectPops(t, q, "less")
}
