package event

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		c := h.Client("system:node:n")
		ctx, cancel := context.WithCancel(context.Background())
		r := New(c, "n", slog.New(slog.DiscardHandler))
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		defer func() { cancel(); <-done }()
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}, Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "i"}}}}
		list := func() []*v1.Event {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			objs, _, err := c.List(ctx, resource, "", metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var out []*v1.Event
			for _, o := range objs {
				out = append(out, o.(*v1.Event))
			}
			return out
		}
		for range 3 { // the same three times is one event
			r.Pod(pod, "i", v1.EventTypeWarning, "BackOff", "again %d", 1)
			time.Sleep(time.Minute)
		}
		got := list()
		if len(got) != 1 || got[0].Count != 3 || got[0].Message != "again 1" || got[0].InvolvedObject.FieldPath != "spec.initContainers{i}" ||
			!got[0].LastTimestamp.After(got[0].FirstTimestamp.Time) || got[0].Source.Component != "kubelet" {
			t.Errorf("events are %+v", got)
		}
		// A counted event that was deleted meanwhile comes anew.
		if err := c.Delete(ctx, resource, "default", got[0].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.Pod(pod, "i", v1.EventTypeWarning, "BackOff", "again %d", 1)
		if got = list(); len(got) != 1 || got[0].Count != 1 {
			t.Errorf("events are %+v", got)
		}
		// A storm is held back.
		for i := range 100 {
			r.Pod(pod, "", v1.EventTypeNormal, "Storm", "%d", i)
			time.Sleep(time.Millisecond)
		}
		if got = list(); len(got) != 1+burst {
			t.Errorf("%d events, want %d", len(got), 1+burst)
		}
		r.Node(v1.EventTypeNormal, "NodeReady", "%s", fmt.Sprint("ready"))
		if got = list(); len(got) != 2+burst {
			t.Errorf("%d events: the node's is missing", len(got))
		}
	})
}
