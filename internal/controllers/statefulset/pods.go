package statefulset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/controllers/revisions"
)

var kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// ordinal is what a pod's name says, when it is a name that the set gives.
func ordinal(set *appsv1.StatefulSet, pod *corev1.Pod) (int, bool) {
	text, ok := strings.CutPrefix(pod.Name, set.Name+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, false
	}
	return int(n), true
}

// newPod is the pod of an ordinal.
func (w *world) newPod(n int) (*corev1.Pod, error) {
	template, revision := &w.set.Spec.Template, w.update
	if w.wantsCurrent(n) {
		var err error
		if template, err = revisions.Template(w.current); err != nil {
			return nil, err
		}
		revision = w.current
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprintf("%s-%d", w.set.Name, n),
			GenerateName:    w.set.Name + "-",
			Namespace:       w.set.Namespace,
			Labels:          maps.Clone(template.Labels),
			Annotations:     maps.Clone(template.Annotations),
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.set, kind)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	w.label(pod, n)
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = revision.Name
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, w.set.Spec.ServiceName
	w.mount(pod, n)
	return pod, nil
}

// label tells a pod who it is.
func (w *world) label(pod *corev1.Pod, n int) {
	pod.Labels = maps.Clone(pod.Labels)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(n)
}

// mount puts the ordinal's claims in the place of the template's volumes of
// the same names.
func (w *world) mount(pod *corev1.Pod, n int) {
	var volumes []corev1.Volume
	claimed := map[string]bool{}
	for i := range w.set.Spec.VolumeClaimTemplates {
		t := &w.set.Spec.VolumeClaimTemplates[i]
		claimed[t.Name] = true
		volumes = append(volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(w.set, t, n)},
		}})
	}
	for _, v := range pod.Spec.Volumes {
		if !claimed[v.Name] {
			volumes = append(volumes, v)
		}
	}
	pod.Spec.Volumes = volumes
}

// identify mends the labels that say who a pod is.
func (w *world) identify(pod *corev1.Pod, n int) step {
	if pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name && pod.Labels[appsv1.PodIndexLabel] == strconv.Itoa(n) {
		return step{}
	}
	changed := *pod // Update copies what it is given
	w.label(&changed, n)
	return step{update: &changed, what: "mended the identity of pod " + pod.Name}
}
