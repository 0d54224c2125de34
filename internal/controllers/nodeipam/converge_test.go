package nodeipam_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/nodeipam"
)

func isSimulated(node *corev1.Node) bool { return node.Labels["simulated"] == "true" }

func TestConverges(t *testing.T) {
	t.Run("one family", func(t *testing.T) { converges(t, "10.42.0.0/20") })
	t.Run("two families", func(t *testing.T) { converges(t, "10.42.0.0/20", "fd00:42::/60") })
}

// converges plays with a cluster range for 16 nodes, two of which are kept for
// those that are not simulated.
func converges(t *testing.T, cidrs ...string) {
	var cluster []netip.Prefix
	for _, s := range cidrs {
		cluster = append(cluster, netip.MustParsePrefix(s))
	}
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			c, err := nodeipam.New(o, nodeipam.Config{Cluster: cluster, Simulated: isSimulated})
			if err != nil {
				t.Fatal(err)
			}
			return []controllers.Controller{c}
		},
		Start: func(w *controllertest.World) {
			// From before the cluster had two families.
			w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.NodeSpec{PodCIDR: "10.42.2.0/24", PodCIDRs: []string{"10.42.2.0/24"}}})
			for i := range 1 + w.Rand.IntN(4) {
				w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("a", i)}})
			}
			for i := range 15 { // there is no room for all of them
				w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("sim", i), Labels: map[string]string{"simulated": "true"}}})
			}
		},
		Meanwhile: func(w *controllertest.World) {
			for i := range w.Rand.IntN(3) {
				w.Delete(client.Nodes, "", fmt.Sprint("a", i), metav1.DeleteOptions{})
				w.Rest(2 * time.Second)
				// Its name may put it before those of the same second, so that a copy
				// that does not see it yet has another plan.
				w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(string('0'+rune(w.Rand.IntN(9))), i)}})
			}
		},
		// Which range a node has depends on when a node went, and so does which
		// of the simulated have one.
		End: func(w *controllertest.World) string {
			return w.Lines(client.Nodes, func(obj client.Object) string {
				if isSimulated(obj.(*corev1.Node)) {
					return ""
				}
				return fmt.Sprintf("%s has %d", obj.GetName(), len(obj.(*corev1.Node).Spec.PodCIDRs))
			})
		},
		Check: func(w *controllertest.World) error {
			owner := map[string]string{}
			for _, obj := range w.List(client.Nodes) {
				had := obj.(*corev1.Node).Spec.PodCIDRs
				if want := len(cluster); len(had) != want && obj.GetName() != "old" && !(len(had) == 0 && isSimulated(obj.(*corev1.Node))) {
					return fmt.Errorf("%s has %v", obj.GetName(), had)
				}
				for _, cidr := range had {
					if other := owner[cidr]; other != "" {
						return fmt.Errorf("%s and %s share %s", other, obj.GetName(), cidr)
					}
					owner[cidr] = obj.GetName()
				}
			}
			if r, ok := w.Get(client.ConfigMaps, "kube-system", "node-ranges").(*corev1.ConfigMap); ok && len(r.Data) > 0 {
				return fmt.Errorf("still promised: %v", r.Data)
			}
			return nil
		},
	})
}
