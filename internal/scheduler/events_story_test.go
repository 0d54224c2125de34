package scheduler_test

import (
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// sourced notes who said what.
type sourced struct {
	*world
	who string
}

func (s sourced) As(component string) client.Recorder { return sourced{s.world, component} }

func (s sourced) Event(obj client.Object, eventType, reason, format string, args ...any) {
	s.world.Event(obj, eventType, s.who+" "+reason, format, args...)
}

// Whatever is said of a pod is said in the name of the scheduler that it chose.
func TestEventsNameTheirProfile(t *testing.T) {
	story(t, nil, func(w *world) {
		w.stop()
		w.startWith(scheduler.Options{Client: w.client, Recorder: sourced{w, "nobody"}, Profiles: []scheduler.Profile{{}, {SchedulerName: "packed"}}})
		of := func(name string, priority int32) func(*corev1.Pod) {
			return func(p *corev1.Pod) { p.Spec.SchedulerName, p.Spec.Priority = name, &priority }
		}
		w.pod("large", "3", of("packed", 0))
		synctest.Wait()
		w.node("n", "2")
		w.pod("small", "2", of("default-scheduler", 0))
		synctest.Wait()
		w.pod("urgent", "2", of("packed", 5))
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, want := range []string{
			"large packed FailedScheduling no nodes available to schedule pods",
			"small default-scheduler Scheduled Successfully assigned default/small to n",
			"urgent packed FailedScheduling 0/1 nodes are available: 1 Insufficient cpu.",
		} {
			if !slices.Contains(w.events, want) {
				t.Errorf("%q is not among\n%q", want, w.events)
			}
		}
		i := slices.IndexFunc(w.events, func(e string) bool { return len(e) > 5 && e[:5] == "small" && e[:12] == "small packed" })
		if i < 0 {
			t.Errorf("who made small leave is not told: %q", w.events)
		}
	})
}
