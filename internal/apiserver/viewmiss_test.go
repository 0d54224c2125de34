package apiserver

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
	"github.com/setpoint-project/setpoint/internal/store"
	"github.com/setpoint-project/setpoint/internal/store/local"
)

// A view that is asked amid a delivery, when the hub has queued a change and
// not yet said that it is done with that revision, takes the change in. Who
// comes just then must be told of it, and an index made just then must have it:
// it is not delivered again.
func TestViewAmidDelivery(t *testing.T) {
	for name, amid := range map[string]func(v *view, told *int) (found func() int){
		"an index is made": func(v *view, _ *int) func() int {
			v.Index("by", func(client.Object) []string { return []string{"x"} })
			return func() int { return len(v.ByIndex("by", "x")) }
		},
		"a handler comes": func(v *view, told *int) func() int {
			v.mu.Lock()
			v.fresh = append(v.fresh, &handler{f: func(_, _ client.Object) { *told++ }})
			v.mu.Unlock()
			v.tell(context.Background()) // as the view's goroutine would
			return func() int { return *told }
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := local.Open(local.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			s, err := New(Config{Store: st, Kinds: all.Kinds()})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			defer func() { <-ended }()
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			go func() { ended <- s.Run(ctx) }()

			nodes := corev1.SchemeGroupVersion.WithResource("nodes")
			c := s.Client(client.Identity{User: "admin", Groups: []string{"system:masters"}})
			v := c.View(nodes, client.ViewOptions{}).(*view)
			if err := v.WaitSynced(ctx); err != nil {
				t.Fatal(err)
			}
			v.Index("none", func(client.Object) []string { return nil })
			s.hub.mu.Lock() // the hub stops at the delivery of what comes now
			if _, err := c.Create(ctx, nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
				t.Fatal(err)
			}
			rec, _, err := st.Get(ctx, v.served().key("", "n"))
			if err != nil || rec == nil {
				t.Fatal(rec, err)
			}
			v.sub.put(&change{res: v.served().resource, ev: store.Event{Record: rec}, name: "n"})
			told := 0
			found := amid(v, &told)
			if n := found(); n != 1 {
				t.Errorf("found %d times, want once", n)
			}
			s.hub.mu.Unlock()
		})
	}
}
