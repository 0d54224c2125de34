package daemonset

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/controllers/podbatch"
)

var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// generationLabel was how pods were told apart before revisions. Clients may
// still look at it.
const generationLabel = "pod-template-generation"

// remember takes note of the pods that are there.
func (w *world) remember() {
	w.memo.pods.Forget(w.pods)
	w.memo.nodes.See(w.pods, func(pod *corev1.Pod) (string, bool) { return nodeOf(pod), true })
	if w.memo.nodes.Len() <= len(w.nodes) {
		return
	}
	there := make(map[string]bool, len(w.nodes))
	for _, node := range w.nodes {
		there[node.Name] = true
	}
	w.memo.nodes.Keep(func(name string) bool { return there[name] })
}

// newPods are those of nodes, with names that stay the same until another pod
// is seen for the node.
func (w *world) newPods(nodes []string) []*corev1.Pod {
	there := map[string][]*corev1.Pod{}
	for _, pod := range w.pods {
		there[nodeOf(pod)] = append(there[nodeOf(pod)], pod)
	}
	pods := make([]*corev1.Pod, len(nodes))
	for i, node := range nodes {
		names := podbatch.Seed([]string{string(w.set.UID), node, w.hash}, w.memo.salt)
		w.memo.nodes.Sway(names, node, there[node])
		pods[i] = w.newPod(node)
		pods[i].Name = names.Next(pods[i].GenerateName)
	}
	return pods
}

func (w *world) newPod(node string) *corev1.Pod {
	t := &w.set.Spec.Template
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    podbatch.Prefix(w.set.Name, "-"),
			Namespace:       w.set.Namespace,
			Labels:          maps.Clone(t.Labels),
			Annotations:     maps.Clone(t.Annotations),
			Finalizers:      slices.Clone(t.Finalizers),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.set, kind)},
		},
		Spec: t.Spec, // copied by the client
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = w.hash
	if g := w.set.Annotations[appsv1.DeprecatedTemplateGeneration]; g != "" {
		pod.Labels[generationLabel] = g
	}
	pod.Spec.Tolerations = tolerations(&t.Spec)
	pod.Spec.Affinity = pin(t.Spec.Affinity, node)
	return pod
}
