package scheduler_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// Pods of one Service are spread over hosts though one host has more room, and
// by a profile that wants it, strictly.
func TestSpreadByDefault(t *testing.T) {
	for _, strict := range []bool{false, true} {
		story(t, nil, func(w *world) {
			if strict {
				w.stop()
				w.startWith(scheduler.Options{Client: w.client, Profiles: []scheduler.Profile{{Spread: []corev1.TopologySpreadConstraint{
					{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}}}})
			}
			if _, err := w.client.Create(w.Context(), client.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
					SessionAffinity: corev1.ServiceAffinityNone, Selector: map[string]string{"app": "web"},
					Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80)}}}}); err != nil {
				w.Fatal(err)
			}
			in := func(zone string) func(*corev1.Node) {
				return func(n *corev1.Node) {
					n.Labels = map[string]string{"zone": zone, corev1.LabelHostname: n.Name}
				}
			}
			w.node("large", "8", in("1"))
			w.node("small", "5", in("2"))
			for i := range 4 {
				w.pod(fmt.Sprint("web-", i), "100m", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
				synctest.Wait()
			}
			count := map[string]int{}
			for i := range 4 {
				count[w.get(fmt.Sprint("web-", i)).Spec.NodeName]++
			}
			if count["large"] != 2 || count["small"] != 2 {
				w.Errorf("strict %t: %v", strict, count)
			}
			if strict {
				w.node("third", "1", in("3"))
				for i := range 3 {
					w.pod(fmt.Sprint("more-", i), "600m", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
					synctest.Wait()
				}
				if c := w.scheduled("more-2"); w.get("more-0").Spec.NodeName != "third" || c.Status != corev1.ConditionFalse {
					w.Errorf("the third zone: %s, %+v", w.pods(), c)
				}
			}
		})
	}
}
