package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

func TestPodTopologyLabels(t *testing.T) {
	w := world{
		"nodes//n": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
			corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r", "kubernetes.io/hostname": "n"}}},
		"nodes//plain": &corev1.Node{ObjectMeta: named("", "plain")},
	}
	p := &PodTopologyLabels{Get: w.get}
	admitted := func(sub string, obj kinds.Object) map[string]string {
		r := request(Create, "pods", obj, nil)
		r.Subresource = sub
		mustAdmit(t, p, r)
		return obj.GetLabels()
	}
	bound := func(kind, node string) *corev1.Binding {
		return &corev1.Binding{ObjectMeta: named("web", "x"), Target: corev1.ObjectReference{Kind: kind, Name: node}}
	}
	on := func(node string) *corev1.Pod {
		return podOf("web", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Labels = node, map[string]string{"a": "b", corev1.LabelTopologyZone: "mine"}
		})
	}
	zone := map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r"}
	own := map[string]string{"a": "b", corev1.LabelTopologyZone: "mine"}
	for name, tc := range map[string]struct{ got, want map[string]string }{
		"binding":                 {admitted("binding", bound("Node", "n")), zone},
		"binding to another kind": {admitted("binding", bound("Machine", "n")), nil},
		"no node":                 {admitted("binding", bound("Node", "none")), nil},
		"node without":            {admitted("binding", bound("Node", "plain")), nil},
		"pod of a node":           {admitted("", on("n")), map[string]string{"a": "b", corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r"}},
		"pod of none":             {admitted("", on("")), own},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
