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
	controllertest.Run(t, controllertest.Case{
		Runs: 40,
		Loops: func(o controllers.Options) []controllers.Controller {
			c, err := nodeipam.New(o, nodeipam.Config{Cluster: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/20")}, Simulated: isSimulated}) // for 16 nodes, two of them not simulated
			if err != nil {
				t.Fatal(err)
			}
			return []controllers.Controller{c}
		},
		Start: func(w *controllertest.World) {
			for i := range 1 + w.Rand.IntN(5) {
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
				// Its name puts it after those of the same second: see the package
				// comment on what two copies can do otherwise.
				w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("t", i)}})
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
				cidr := obj.(*corev1.Node).Spec.PodCIDR
				if cidr == "" && isSimulated(obj.(*corev1.Node)) {
					continue
				}
				if other := owner[cidr]; other != "" {
					return fmt.Errorf("%s and %s share %s", other, obj.GetName(), cidr)
				}
				owner[cidr] = obj.GetName()
			}
			return nil
		},
	})
}
