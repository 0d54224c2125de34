package apiserver

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
	"github.com/setpoint-project/setpoint/internal/store"
	"github.com/setpoint-project/setpoint/internal/store/local"
)

// A shared object that a reader changes is noticed, however often it was looked
// at before: when it is replaced or deleted, and when the server stops.
func TestChangeOfSharedObjectIsNoticed(t *testing.T) {
	for _, looks := range []int{1, 2, 3, 7, 100} {
		for name, last := range map[string]func(*Server, *store.Record){
			"replaced": func(s *Server, rec *store.Record) {
				now := &store.Record{Key: rec.Key, Value: rec.Value, Revision: rec.Revision + 1}
				s.hub.deliver([]store.Event{{Record: now, Prev: rec}}, now.Revision)
			},
			"stopped": func(s *Server, _ *store.Record) { s.checkAll() },
		} {
			for _, changed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s,looks=%d,changed=%t", name, looks, changed), func(t *testing.T) {
					st, err := local.Open(local.Options{})
					if err != nil {
						t.Fatal(err)
					}
					defer st.Close()
					s, err := New(Config{Store: st, Kinds: all.Kinds(), CheckImmutable: true})
					if err != nil {
						t.Fatal(err)
					}
					nodes := corev1.SchemeGroupVersion.WithResource("nodes")
					node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}}
					if _, err := s.Client(client.Identity{User: "admin"}).Create(t.Context(), nodes, node); err != nil {
						t.Fatal(err)
					}
					rec, _, err := st.Get(t.Context(), "/registry/minions/n")
					if err != nil || rec == nil {
						t.Fatal(rec, err)
					}
					var e *entry
					for range looks {
						if e, err = s.peek(s.resourceOfKey(rec.Key), rec); err != nil {
							t.Fatal(err)
						}
					}
					if changed {
						e.obj.GetLabels()["a"] = "c"
					}
					noticed := func() (what any) {
						defer func() { what = recover() }()
						last(s, rec)
						return nil
					}()
					if got := strings.Contains(fmt.Sprint(noticed), "was changed by a reader"); got != changed {
						t.Errorf("noticed: %v", noticed)
					}
				})
			}
		}
	}
}
