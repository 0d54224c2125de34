package nodettl

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
)

// The shortest time that is right, unless the node was told another that is.
func TestWant(t *testing.T) {
	for _, c := range []struct {
		had   string
		nodes int
		want  string
	}{
		{"", 0, "0"}, {"", 1, "0"}, {"", 100, "0"}, {"", 101, "15"},
		{"0", 100, "0"}, {"0", 101, "15"}, {"15", 95, "15"}, {"15", 89, "0"}, {"15", 90, "15"},
		{"15", 500, "15"}, {"15", 501, "30"}, {"30", 450, "30"}, {"30", 449, "15"},
		{"", 1001, "60"}, {"", 2001, "300"}, {"300", 1800, "300"}, {"", 10_001, "600"}, {"600", 9000, "600"}, {"600", 8999, "300"},
		{"nonsense", 5, "0"}, {"600", 5, "0"},
	} {
		if got := want(c.had, c.nodes); got != c.want {
			t.Errorf("%d nodes, told %q: %q, want %q", c.nodes, c.had, got, c.want)
		}
	}
}

func node(name, ttl string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if ttl != "" {
		n.Annotations = map[string]string{corev1.ObjectTTLAnnotationKey: ttl, "kept": "yes"}
	}
	return n
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller { return []controllers.Controller{New(o)} },
		Start: func(w *controllertest.World) {
			// In one of three, the cluster grows over the first step's end.
			n := 3
			if w.Seed%3 == 0 {
				n = 98
			}
			for i := range n {
				w.Create(client.Nodes, node(fmt.Sprint("n", i), []string{"", "0", "300", "x"}[w.Rand.IntN(4)]))
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for i := range 4 {
				w.Create(client.Nodes, node(fmt.Sprint("late", i), ""))
			}
			w.Edit(client.Nodes, "", "n0", func(obj client.Object) { obj.SetAnnotations(map[string]string{corev1.ObjectTTLAnnotationKey: "7"}) })
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.Nodes, func(obj client.Object) string { return fmt.Sprint(obj.GetName(), obj.GetAnnotations()) })
		},
		Check: func(w *controllertest.World) error {
			nodes := w.List(client.Nodes)
			for _, n := range nodes {
				if got, want := n.GetAnnotations()[corev1.ObjectTTLAnnotationKey], want("", len(nodes)); got != want {
					return fmt.Errorf("%s of %d is told %q, want %q", n.GetName(), len(nodes), got, want)
				}
			}
			return nil
		},
		Runs: 100,
	})
}
